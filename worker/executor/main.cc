// tandem-executor: drives the CPU of a server, or an emulated device, for one owner
// (worker/executor/executor_program.h), or looks at a library of kernels (worker/executor/probe.h).
#include "absl/status/status.h"
#include "worker/executor/device_of.h"
#include "worker/executor/executor_program.h"
#include "worker/executor/probe.h"

namespace tandem::worker {
namespace {

constexpr char kHelp[] =
    "tandem-executor drives the cores of a server for one owner. tandem-worker starts it; there is "
    "nothing to start by hand.\n\nExample:\n  tandem-worker --master 10.0.0.1:7460 --dir "
    "/var/lib/tandem-worker\n";

absl::Status AddBuiltin(KernelTable* table) {
  return table->Add(tandem_builtin_kernels(), tandem_builtin_kernels_for("v2"));
}

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) {
  using namespace tandem::worker;
  return RunExecutorProgram({.name = "tandem-executor",
                             .help = kHelp,
                             .answer = &ProbeIfAsked,
                             .device_of = &DeviceOf,
                             .form = KernelForm::kHost,
                             .add_builtin = &AddBuiltin},
                            argc, argv);
}
