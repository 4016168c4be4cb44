// tandem-worker: runs the work of one server. See worker/server/supervisor.h.
//
// Exit codes: 0 told to stop · 2 usage · 4 its folder cannot be written · 5 it could not go on ·
// 6 its disk is full · 8 another version than the master.
#include <string>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/cli/error_file.h"
#include "common/rpc/channel.h"
#include "worker/server/identity.h"
#include "worker/server/options.h"
#include "worker/server/supervisor.h"

namespace tandem::worker {
namespace {

int Main(int argc, char** argv) {
  std::variant<WorkerOptions, int> flags = ParseFlags(argc, argv);
  if (const int* code = std::get_if<int>(&flags)) return *code;
  const WorkerOptions& options = std::get<WorkerOptions>(flags);
  absl::StatusOr<Identity> identity = Identity::Claim(options.directory, options.name);
  if (!identity.ok()) return cli::FailToStart(kProgram, identity.status(), options.error_file);
  rpc::RouteGrpcLog();
  Supervisor supervisor(options, *std::move(identity), Clock::Real());
  const absl::Status status = supervisor.Run();
  return status.ok() || absl::IsCancelled(status)
             ? 0
             : cli::FailToStart(kProgram, status, options.error_file);
}

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) { return tandem::worker::Main(argc, argv); }
