// What the start of an executor takes, in its parts: asked with `--start=DEVICE [--since=NANOS]` an
// executor's program goes the way that it goes for a worker, on to the end of a first grid, and
// says it as JSON (common/probe/device_report.h).
//
//   tandem-executor-cuda --start=cuda:GPU-1f0e… --since=81226153218801
//
// A part begins where the one before it ended, so that together they are the whole:
//   spawn            from NANOS of CLOCK_MONOTONIC, when whoever asks began, until main
//   driver, context  CUDA's; other devices have none
//   device           its streams and threads
//   kernels          the table of those that are linked
//   slab             memory of the device and pinned memory, as the first batch gets them
//   first_launch     what else that batch took: its kernel is loaded, launched, and has ended
//
// Thread-safety: called once, from main.
#ifndef TANDEM_WORKER_EXECUTOR_START_TIMES_H_
#define TANDEM_WORKER_EXECUTOR_START_TIMES_H_

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "worker/executor/executor_program.h"

namespace tandem::worker {

// The exit code of a program that was asked this; nothing when it was not.
std::optional<int> AnswerStart(const ExecutorProgram& program,
                               const std::vector<std::string>& arguments, MonoTime main_began);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_START_TIMES_H_
