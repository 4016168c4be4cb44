// tandem-worker: runs the work of one server. See worker/server/supervisor.h.
//
// Exit codes: 0 told to stop · 2 usage · 5 it could not go on · 8 another version than the master.
#include <cstdio>
#include <string>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "worker/server/identity.h"
#include "worker/server/options.h"
#include "worker/server/supervisor.h"

namespace tandem::worker {
namespace {

constexpr int kUsage = 2;
constexpr int kUnavailable = 5;
constexpr int kVersionSkew = 8;

int Fail(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  std::fprintf(stderr, "tandem-worker: %s (%s)\n", std::string(status.message()).c_str(),
               reason.empty() ? std::string(reason::kInternal).c_str() : reason.c_str());
  if (absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status)) return kUsage;
  return reason == reason::kVersionSkew ? kVersionSkew : kUnavailable;
}

int Main(int argc, char** argv) {
  std::variant<WorkerOptions, int> flags = ParseFlags(argc, argv);
  if (const int* code = std::get_if<int>(&flags)) return *code;
  const WorkerOptions& options = std::get<WorkerOptions>(flags);
  absl::StatusOr<Identity> identity = Identity::Claim(options.directory, options.name);
  if (!identity.ok()) return Fail(identity.status());
  rpc::RouteGrpcLog();
  Supervisor supervisor(options, *std::move(identity), Clock::Real());
  const absl::Status status = supervisor.Run();
  return status.ok() || absl::IsCancelled(status) ? 0 : Fail(status);
}

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) { return tandem::worker::Main(argc, argv); }
