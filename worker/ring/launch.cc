#include "worker/ring/launch.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

constexpr uint32_t kCpusMax = 1 << 16;

template <class T>
absl::Status ParseNumber(std::string_view name, std::string_view text, T* number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) {
    return InvalidError(reason::kBadArgument,
                        StrCat("--", name, " needs a whole number; got ", Quoted(text)));
  }
  return absl::OkStatus();
}

absl::Status SetField(std::string_view name, std::string_view value, ExecutorLaunch* launch) {
  if (name == "channel") {
    launch->channel = value;
  } else if (name == "start-page") {
    launch->start_page = value;
  } else if (name == "owner") {
    launch->owner = value;
  } else if (name == "device") {
    launch->device = value;
  } else if (name == "directory") {
    launch->directory = value;
  } else if (name == "kernel-library") {
    launch->kernel_libraries.emplace_back(value);
  } else if (name == "staging") {
    return ParseNumber(name, value, &launch->staging_fd);
  } else if (name == "groups") {
    return ParseNumber(name, value, &launch->groups);
  } else if (name == "cache-bytes") {
    return ParseNumber(name, value, &launch->cache_bytes_max);
  } else if (name == "memory") {
    launch->memory = value;
  } else if (name == "pinned-bytes") {
    return ParseNumber(name, value, &launch->pinned_bytes_max);
  } else if (name == "mapped-bytes") {
    return ParseNumber(name, value, &launch->mapped_bytes_max);
  } else if (name == "parent-pid") {
    return ParseNumber(name, value, &launch->parent_pid);
  } else if (name == "beside-devices") {
    launch->beside_devices = value == "yes";
  } else if (name == "local-data") {
    launch->local_data = value == "auto";
  } else if (name == "cores") {
    ASSIGN_OR_RETURN(launch->cores, ParseCpuList(value));
  } else {
    return InvalidError(reason::kBadArgument,
                        StrCat("no argument is named ", Quoted(name),
                               "; an executor is started by tandem-worker of the same build"));
  }
  return absl::OkStatus();
}

absl::Status CheckComplete(const ExecutorLaunch& launch) {
  const std::pair<const char*, bool> needed[] = {
      {"channel", !launch.channel.empty()},       {"staging", launch.staging_fd >= 0},
      {"start-page", !launch.start_page.empty()}, {"owner", !launch.owner.empty()},
      {"directory", !launch.directory.empty()},   {"cores", !launch.cores.empty()},
      {"device", !launch.device.empty()},
  };
  for (const auto& [name, present] : needed) {
    if (!present) {
      return InvalidError(
          reason::kBadArgument,
          StrCat("--", name, " is missing; an executor is started by tandem-worker"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ToArguments(const ExecutorLaunch& launch) {
  std::vector<std::string> arguments = {
      StrCat("--channel=", launch.channel),
      StrCat("--staging=", launch.staging_fd),
      StrCat("--start-page=", launch.start_page),
      StrCat("--owner=", launch.owner),
      StrCat("--device=", launch.device),
      StrCat("--directory=", launch.directory),
      StrCat("--cores=", FormatCpuList(launch.cores)),
      StrCat("--groups=", launch.groups),
      StrCat("--beside-devices=", launch.beside_devices ? "yes" : "no"),
      StrCat("--local-data=", launch.local_data ? "auto" : "never"),
      StrCat("--cache-bytes=", launch.cache_bytes_max),
      StrCat("--memory=", launch.memory),
      StrCat("--pinned-bytes=", launch.pinned_bytes_max),
      StrCat("--mapped-bytes=", launch.mapped_bytes_max),
      StrCat("--parent-pid=", launch.parent_pid)};
  for (const std::string& library : launch.kernel_libraries) {
    arguments.push_back(StrCat("--kernel-library=", library));
  }
  return arguments;
}

absl::StatusOr<ExecutorLaunch> ParseLaunch(const std::vector<std::string>& arguments) {
  ExecutorLaunch launch;
  for (const std::string& argument : arguments) {
    const std::string_view text = argument;
    const size_t equals = text.find('=');
    if (text.substr(0, 2) != "--" || equals == std::string_view::npos) {
      return InvalidError(reason::kBadArgument,
                          StrCat("expected --name=value; got ", Quoted(text)));
    }
    RETURN_IF_ERROR(SetField(text.substr(2, equals - 2), text.substr(equals + 1), &launch));
  }
  RETURN_IF_ERROR(CheckComplete(launch));
  return launch;
}

absl::StatusOr<std::vector<uint32_t>> ParseCpuList(std::string_view text) {
  std::vector<bool> named(kCpusMax);  // a list may name one many times
  for (const std::string_view piece : Split(Trim(text), ',')) {
    const size_t dash = piece.find('-');
    uint32_t first = 0;
    RETURN_IF_ERROR(ParseNumber("cores", piece.substr(0, dash), &first));
    uint32_t last = first;
    if (dash != std::string_view::npos) {
      RETURN_IF_ERROR(ParseNumber("cores", piece.substr(dash + 1), &last));
    }
    if (last < first || last >= kCpusMax) {
      return InvalidError(reason::kBadArgument, StrCat("--cores: ", Quoted(piece),
                                                       " is not a range of CPUs; write a list "
                                                       "such as 0-3,8"));
    }
    std::fill(named.begin() + first, named.begin() + last + 1, true);
  }
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu < kCpusMax; ++cpu) {
    if (named[cpu]) cpus.push_back(cpu);
  }
  return cpus;
}

std::string FormatCpuList(const std::vector<uint32_t>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ",";
    StrAppend(&text, cpus[i]);
    if (last > i) StrAppend(&text, "-", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tandem::worker
