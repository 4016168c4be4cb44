#include "worker/executor/probe.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string_view>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/kernel.h"
#include "kernels/sdk/abi.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/executor/kernel_table.h"

namespace tandem::worker {
namespace {

constexpr int kUsage = 2;
constexpr std::string_view kProbeFlag = "--probe=";
constexpr std::string_view kResultFlag = "--result-fd=";

// The library's own kernels: those behind the built-in ones.
absl::StatusOr<std::string> Describe(const std::string& library) {
  KernelTable table;
  RETURN_IF_ERROR(table.Add(tandem_builtin_kernels()));
  const size_t builtin = table.infos().size();
  RETURN_IF_ERROR(table.AddLibrary(library));
  executor::v1::Ready ready;
  for (size_t i = builtin; i < table.infos().size(); ++i) {
    wire::Encode(table.infos()[i], ready.add_kernels());
  }
  return ready.SerializeAsString();
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::optional<int> ProbeIfAsked(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].rfind(kProbeFlag, 0) != 0) return std::nullopt;
  int fd = -1;
  if (arguments.size() == 2 && arguments[1].rfind(kResultFlag, 0) == 0) {
    const std::string_view number = std::string_view(arguments[1]).substr(kResultFlag.size());
    std::from_chars(number.data(), number.data() + number.size(), fd);
  }
  if (fd < 0) {
    std::fprintf(stderr, "tandem-executor: --probe is for tandem-worker\n");
    return kUsage;
  }
  const rlimit no_core = {0, 0};  // A library that crashes here is news, not a reason for a dump.
  ::setrlimit(RLIMIT_CORE, &no_core);
  const absl::StatusOr<std::string> found = Describe(arguments[0].substr(kProbeFlag.size()));
  const std::string result = found.ok() ? *found : std::string(found.status().message());
  if (!WriteAll(fd, result)) return kUsage;
  // Destructors of the library, which is loaded still, have nothing more to say.
  ::_exit(found.ok() ? 0 : kRefusedExit);
}

}  // namespace tandem::worker
