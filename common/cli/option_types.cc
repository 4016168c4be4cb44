#include "common/cli/option_types.h"

#include <charconv>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

template <class T>
CLI::Validator Between(T least, T most, const char* type) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        T value{};
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (failed == std::errc() && end == text.data() + text.size() && value >= least &&
            value <= most) {
          return "";
        }
        return StrCat(Quoted(text), " is no whole number ",
                      most == std::numeric_limits<T>::max() ? StrCat("of at least ", least)
                                                            : StrCat("from ", least, " to ", most));
      },
      type);
}

std::string RefusedWord(std::string_view text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == text) return "";
  }
  return StrCat(Quoted(text), " is none of ", absl::StrJoin(words, ", "), DidYouMean(text, words));
}

}  // namespace

CLI::Validator Count(uint64_t least, uint64_t most) {
  return Between<uint64_t>(least, most, "NUMBER");
}

CLI::Validator Integer(int64_t least, int64_t most) {
  return Between<int64_t>(least, most, "NUMBER");
}

CLI::Validator OneOf(std::vector<std::string> words) {
  std::string type = absl::StrJoin(words, "|");
  return CLI::Validator(
      [words = std::move(words)](std::string& text) { return RefusedWord(text, words); },
      std::move(type));
}

absl::Status CheckOneOf(std::string_view what, std::string_view text,
                        const std::vector<std::string>& words) {
  const std::string refused = RefusedWord(text, words);
  if (refused.empty()) return absl::OkStatus();
  return InvalidError(reason::kBadArgument, StrCat(what, what.empty() ? "" : ": ", refused));
}

std::string DidYouMean(std::string_view typed, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (absl::EqualsIgnoreCase(ToAbsl(typed), name)) return StrCat("; did you mean ", name, "?");
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = Nearest(typed, views);
  return near.empty() ? "" : StrCat("; did you mean ", near, "?");
}

}  // namespace tandem::cli
