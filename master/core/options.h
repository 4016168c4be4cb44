// What a MasterCore is built with: times, and a bound on everything that can grow.
//
// Thread-safety: plain data.
#ifndef TANDEM_MASTER_CORE_OPTIONS_H_
#define TANDEM_MASTER_CORE_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "master/policy/policy.h"

namespace tandem::master {

struct Limits {
  uint64_t jobs_max = 100'000;            // Accepted and not deleted. More: RESOURCE_EXHAUSTED.
  uint64_t workers_max = 4096;            // Attached, expected or lost. More: RESOURCE_EXHAUSTED.
  uint64_t lost_workers_max = 1024;       // Remembered by name after they were lost.
  uint64_t drained_max = 4096;            // Names that are drained. More: RESOURCE_EXHAUSTED.
  uint64_t kernels_max = 4096;            // Known by identity. More are not offered work of.
  uint64_t leases_per_worker_max = 2048;  // In flight, whatever the worker says it takes.
  uint64_t held_leases_max = 131'072;     // By one worker, those waiting in accumulators included.
  uint64_t failures_listed_max = 65'536;  // Task failures listed in one record; all are counted.
  uint64_t suspects_looked_at_max = 16'384;  // Runs of them, for those that run together next.
  uint64_t name_bytes_max = 256;             // Of a worker.
};

struct Options {
  absl::Duration lease_ttl = absl::Seconds(5);  // A silent worker's leases live that long.
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration reconnect_grace = absl::Seconds(1);  // … and this long once its stream is broken.
  absl::Duration commit_time = absl::Milliseconds(1);    // Beside the round trip, to size queues.
  absl::Duration recall_quiet = absl::Milliseconds(50);  // Between two recalls of one job.
  uint64_t merge_inputs_max = 64;   // Partials in one merge; so many unmerged ones start one.
  uint32_t merge_attempts_max = 3;  // A reduction whose merges fail so often fails.
  // A worker that says that it cannot run a job is asked again after so long, then after twice …
  absl::Duration unfit_retry = absl::Seconds(10);
  absl::Duration unfit_retry_max = absl::Minutes(5);
  // So many leaves given up in a row, none finished between: the job, which is to fail, ends.
  uint64_t given_up_in_row_max = 64;
  PolicyOptions policy;
  Limits limits;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_OPTIONS_H_
