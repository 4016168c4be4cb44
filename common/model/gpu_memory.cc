#include "common/model/gpu_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

constexpr char kForms[] = "; give a size as 20GiB, or a share of what is free as 90%";

absl::Status BadShare(std::string_view text, std::string_view why) {
  return InvalidError(reason::kBadArgument, StrCat(Quoted(text), " ", why, kForms));
}

}  // namespace

absl::StatusOr<MemoryShare> MemoryShare::Parse(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  MemoryShare share;
  if (trimmed.ends_with('%')) {
    const std::string digits(Trim(trimmed.substr(0, trimmed.size() - 1)));
    if (digits.find_first_not_of("0123456789.") != std::string::npos ||
        !absl::SimpleAtod(digits, &share.percent)) {
      return InvalidError(reason::kBadSize, StrCat(Quoted(text), " is no share", kForms));
    }
    if (share.percent <= 0) return BadShare(text, "leaves nothing to work with");
    if (share.percent > 100) return BadShare(text, "is more than all of it");
    return share;
  }
  absl::StatusOr<uint64_t> bytes = ParseSize(trimmed);
  if (!bytes.ok()) {
    return Error(absl::StatusCode::kInvalidArgument, ReasonOf(bytes.status()),
                 StrCat(ToStd(bytes.status().message()), kForms));
  }
  if (*bytes == 0) return BadShare(text, "leaves nothing to work with");
  share.bytes = *bytes;
  return share;
}

uint64_t MemoryShare::Of(uint64_t free_bytes) const {
  if (bytes > 0) return bytes;
  return static_cast<uint64_t>(std::floor(static_cast<double>(free_bytes) * percent / 100));
}

std::string MemoryShare::Words() const {
  return bytes > 0 ? HumanSize(bytes) : StrCat(ToString(), " of what is free");
}

std::string MemoryShare::ToString() const {
  return bytes > 0 ? StrCat(bytes, "B") : absl::StrFormat("%.15g%%", percent);
}

absl::StatusOr<GpuMemory> GpuMemory::Parse(std::string_view text) {
  GpuMemory memory;
  bool all_given = false;
  const std::vector<std::string_view> entries = Split(text, ',');
  if (entries.size() > kEntriesMax) {
    return InvalidError(reason::kBadArgument,
                        StrCat("names ", entries.size(), " devices, more than ", kEntriesMax));
  }
  for (const std::string_view entry : entries) {
    const size_t equals = entry.find('=');
    const bool named = equals != std::string_view::npos;
    const std::string name(named ? Trim(entry.substr(0, equals)) : std::string_view());
    ASSIGN_OR_RETURN(const MemoryShare share,
                     MemoryShare::Parse(named ? entry.substr(equals + 1) : entry));
    const bool again =
        named ? std::ranges::find(memory.named_, name, &Entry::name) != memory.named_.end()
              : std::exchange(all_given, true);
    if (again || (named && name.empty())) {
      return InvalidError(
          reason::kBadArgument,
          StrCat(Quoted(entry), named && name.empty() ? " names no device" : " is given twice",
                 ": write one size for all devices, and behind a comma DEVICE=SIZE for each that "
                 "has another, as 80%,GPU-1f0e=20GiB"));
    }
    if (named) {
      memory.named_.push_back({name, share});
    } else {
      memory.all_ = share;
    }
  }
  return memory;
}

const MemoryShare& GpuMemory::For(std::string_view uuid) const {
  const Entry* best = nullptr;
  for (const Entry& entry : named_) {
    if (uuid.starts_with(entry.name) &&
        (best == nullptr || entry.name.size() > best->name.size())) {
      best = &entry;
    }
  }
  return best == nullptr ? all_ : best->share;
}

absl::Status GpuMemory::CheckAgainst(std::string_view uuid, uint64_t memory_bytes) const {
  const MemoryShare& share = For(uuid);
  if (share.bytes <= memory_bytes) return absl::OkStatus();
  return InvalidError(reason::kBadArgument,
                      StrCat(HumanSize(share.bytes), " is more than ", uuid, " has, ",
                             HumanSize(memory_bytes), kForms, ", or DEVICE=SIZE for one device"));
}

std::vector<std::string> GpuMemory::UnknownNames(const std::vector<std::string>& uuids) const {
  std::vector<std::string> unknown;
  for (const Entry& entry : named_) {
    const bool known = std::ranges::any_of(
        uuids, [&entry](const std::string& uuid) { return uuid.starts_with(entry.name); });
    if (!known) unknown.push_back(entry.name);
  }
  return unknown;
}

}  // namespace tandem
