#include "common/probe/visible_devices.h"

#include <cctype>
#include <set>
#include <string_view>

#include "common/base/strings.h"

namespace tandem {
namespace {

constexpr char kName[] = "CUDA_VISIBLE_DEVICES";

bool AllDigits(std::string_view text) {
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return !text.empty();
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "GPU-" and "MIG-" before hexadecimal digits (a beginning will do), or the older name of a slice,
// MIG-GPU-UUID/3/0.
bool IsUuid(std::string_view text) {
  if (text.substr(0, 8) == "MIG-GPU-") return text.size() > 8;
  if (text.substr(0, 4) != "GPU-" && text.substr(0, 4) != "MIG-") return false;
  for (const char c : text.substr(4)) {
    if (c != '-' && std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return text.size() > 4;
}

// "0-3", "0:3", "0..3"
bool IsRange(std::string_view text) {
  const size_t mark = text.find_first_not_of("0123456789");
  if (mark == 0 || mark == std::string_view::npos) return false;
  const size_t end = text.find_first_not_of("-:.", mark);
  return end != mark && end != std::string_view::npos && AllDigits(text.substr(end));
}

VisibleDevices Junk(const std::string& value, std::string_view entry, std::string_view why,
                    std::string mend) {
  return {VisibleDevices::Kind::kJunk,
          StrCat(kName, "='", value, "': '", entry, "' ", why, ", and CUDA stops reading there"),
          std::move(mend)};
}

}  // namespace

VisibleDevices DescribeVisible(const std::optional<std::string>& value) {
  using Kind = VisibleDevices::Kind;
  if (!value.has_value()) return {Kind::kAll, StrCat(kName, " is not set: every device"), ""};
  const std::string_view text = Trimmed(*value);
  if (text.empty()) {
    return {Kind::kNone, StrCat(kName, " is empty: it hides every device"),
            StrCat("unset ", kName)};
  }
  if (text == "NoDevFiles" || text == "-1") {
    return {Kind::kNone,
            StrCat(kName, "='", text, "': ",
                   text == "-1" ? "it hides every device"
                                : "set by Slurm for a step that was given no GPU"),
            text == "-1" ? StrCat("unset ", kName)
                         : std::string("ask for GPUs (srun --gpus=1), and start it there")};
  }
  std::set<std::string> seen;
  for (const std::string_view piece : Split(text, ',')) {
    const std::string_view entry = Trimmed(piece);
    if (IsRange(entry)) {
      return Junk(*value, entry, "is a range, which CUDA does not know",
                  StrCat("export ", kName, "=0,1,…: one index or UUID after the other"));
    }
    if (!AllDigits(entry) && !IsUuid(entry)) {
      return Junk(*value, entry, "is neither an index nor a UUID (GPU-…, MIG-…)",
                  StrCat("export ", kName, "=UUID, as nvidia-smi -L lists them, or unset it"));
    }
    if (!seen.emplace(entry).second) {
      return Junk(*value, entry, "is there twice", "name each device once");
    }
  }
  return {Kind::kSome, StrCat(kName, "='", text, "'"), ""};
}

}  // namespace tandem
