#include "client/cli/completion.h"

#include "common/base/strings.h"
#include "common/cli/usage.h"

namespace tandem::cli {
namespace {

bool IsFlagWord(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

const CLI::Option* FindOption(const CLI::App& command, std::string_view word) {
  const std::string name(word.substr(0, word.find('=')));
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name(name) && option->nonpositional()) return option;
  }
  return nullptr;
}

const CLI::App* FindSubcommand(const CLI::App& command, const std::string& word) {
  for (const CLI::App* child : command.get_subcommands(nullptr)) {
    if (child->get_name() == word) return child;
  }
  return nullptr;
}

// Where the words before the last lead.
struct Place {
  const CLI::App* command;
  const CLI::Option* value_of = nullptr;  // the last word is this option's value
  std::vector<std::string> positionals;
};

Place Follow(const CLI::App& app, const std::vector<std::string>& words) {
  Place place{&app};
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (place.value_of != nullptr) {
      place.value_of = nullptr;
    } else if (IsFlagWord(word)) {
      const CLI::Option* option = FindOption(*place.command, word);
      const bool takes = option != nullptr && !TypeOf(*option).empty();
      if (takes && word.find('=') == std::string::npos) place.value_of = option;
    } else if (const CLI::App* child = FindSubcommand(*place.command, word)) {
      place.command = child;
    } else {
      place.positionals.push_back(word);
    }
  }
  return place;
}

const CLI::Option* PositionalAt(const CLI::App& command, size_t index) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const bool many = option->get_items_expected_max() > 1;  // it takes all that is left
    if (many || index-- == 0) return option;
  }
  return nullptr;
}

class Completer {
 public:
  Completer(std::string_view typed, NameLookup names) : typed_(typed), names_(names) {}

  void Offer(const std::string& word) {
    if (word.starts_with(typed_)) found_.words.push_back(word);
  }
  // Values of a type behind `before`, the part of the word that stays.
  void OfferValues(std::string_view type, const std::string& before, const Place& place) {
    if (type.find('|') != std::string_view::npos) {
      for (const std::string_view word : Split(type, '|')) Offer(StrCat(before, word));
    } else if (type == "FILE" || type == "DIR") {
      found_.files = type == "FILE" ? Completion::kFiles : Completion::kDirectories;
      found_.before_file = before;
    } else if (type == "NAME=VALUE" || type == "NAME=@PATH") {
      OfferPair(type, place);
    } else if (type == "JOBS") {
      Offer("last");
      Offer("all");
      OfferNames(type, "");
    } else {
      OfferNames(type, "");
    }
  }
  Completion Take() { return std::move(found_); }

 private:
  void OfferNames(std::string_view type, const std::string& kernel) {
    for (const std::string& name : names_(type, kernel)) Offer(name);
  }
  void OfferPair(std::string_view type, const Place& place) {
    for (const std::string_view mark : {"=@", "=path:", "=list:"}) {
      const size_t at = typed_.find(mark);
      if (at == std::string_view::npos) continue;
      found_.files = Completion::kFiles;
      found_.before_file = std::string(typed_.substr(0, at + mark.size()));
      return;
    }
    if (type != "NAME=VALUE" || place.positionals.empty()) return;
    OfferNames(type, place.positionals.front());
  }

  const std::string_view typed_;
  const NameLookup names_;
  Completion found_;
};

constexpr std::string_view kBash =
    R"bash(# tandem's completion for bash: source <(tandem completion bash)
_tandem() {
  local rest=${COMP_LINE:0:COMP_POINT} words=() word line before typed file i
  # bash splits words at = : and @ too; this puts them together again.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $i -gt 0 && $rest != [[:space:]]* ]]; then words[-1]+=$word; else words+=("$word"); fi
    rest=${rest#"${rest%%[![:space:]]*}"}
    rest=${rest#"$word"}
  done
  word=${words[-1]}
  before=${word%"${COMP_WORDS[COMP_CWORD]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files\ * | :directories\ *)
        typed=${word#"${line#* }"}
        compopt -o filenames 2>/dev/null
        while IFS= read -r file; do
          file=${line#* }$file
          COMPREPLY+=("${file#"$before"}")
        done < <(if [[ $line == :files* ]]; then compgen -f -- "$typed"; else compgen -d -- "$typed"; fi)
        ;;
      *)
        [[ $line == *= ]] && compopt -o nospace 2>/dev/null
        COMPREPLY+=("${line#"$before"}")
        ;;
    esac
  done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
}
complete -F _tandem tandem
)bash";

constexpr std::string_view kZsh = R"zsh(#compdef tandem
# tandem's completion for zsh: source <(tandem completion zsh), or as a file _tandem in $fpath
_tandem() {
  local line
  local -a found
  for line in "${(@f)$("${words[1]}" complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      ':files '*) compset -P "${(b)line#:files }"; _files; return ;;
      ':directories '*) compset -P "${(b)line#:directories }"; _files -/; return ;;
      *=) compadd -S '' -- "$line" ;;
      ?*) found+=("$line") ;;
    esac
  done
  compadd -- "${found[@]}"
}
compdef _tandem tandem
)zsh";

constexpr std::string_view kFish =
    R"fish(# tandem's completion for fish: tandem completion fish | source
function __tandem_complete
  set -l words (commandline -opc) (commandline -ct)
  for line in ($words[1] complete $words[2..-1] 2>/dev/null)
    switch $line
      case ':files *' ':directories *'
        set -l before (string replace -r '^:\w+ ' '' -- $line)
        set -l typed (string sub -s (math 1 + (string length -- "$before")) -- (commandline -ct))
        for file in $typed*
          test -d $file; and set file $file/
          echo $before$file
        end
      case '*'
        echo $line
    end
  end
end
complete -c tandem -f -a '(__tandem_complete)'
)fish";

}  // namespace

Completion Complete(const CLI::App& app, const std::vector<std::string>& words, NameLookup names) {
  const std::string typed = words.empty() ? "" : words.back();
  const Place place = Follow(app, words);
  Completer completer(typed, names);
  if (place.value_of != nullptr) {
    completer.OfferValues(TypeOf(*place.value_of), "", place);
  } else if (IsFlagWord(typed) && typed.find('=') != std::string::npos) {
    const CLI::Option* option = FindOption(*place.command, typed);
    const std::string before = typed.substr(0, typed.find('=') + 1);
    if (option != nullptr) completer.OfferValues(TypeOf(*option), before, place);
  } else if (!typed.empty() && typed[0] == '-') {
    for (const CLI::Option* option : place.command->get_options()) {
      for (const std::string& name : option->get_lnames()) completer.Offer(StrCat("--", name));
    }
  } else if (const auto children = VisibleSubcommands(*place.command); !children.empty()) {
    for (const CLI::App* child : children) completer.Offer(child->get_name());
  } else if (const auto* option = PositionalAt(*place.command, place.positionals.size())) {
    completer.OfferValues(TypeOf(*option), "", place);
  }
  return completer.Take();
}

std::string CompletionLines(const Completion& completion) {
  std::string lines;
  if (completion.files != Completion::kNone) {
    StrAppend(&lines, completion.files == Completion::kFiles ? ":files " : ":directories ",
              completion.before_file, "\n");
  }
  for (const std::string& word : completion.words) StrAppend(&lines, word, "\n");
  return lines;
}

std::string_view CompletionScript(std::string_view shell) {
  if (shell == "bash") return kBash;
  return shell == "zsh" ? kZsh : kFish;
}

}  // namespace tandem::cli
