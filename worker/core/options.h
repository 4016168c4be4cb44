// What a worker's core can be told: sizes, times and bounds, each with the value that is meant for
// use. Tests and the simulator set others.
//
// Thread-safety: plain data.
#ifndef TANDEM_WORKER_CORE_OPTIONS_H_
#define TANDEM_WORKER_CORE_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "worker/core/note_budget.h"
#include "worker/core/puller.h"

namespace tandem::worker {

// How much work a core group pulls at a time, besides what its job's puller decides (puller.h).
struct PullOptions {
  PullerOptions puller;
  uint32_t pieces_per_group = 2;  // running and queued, of any size
  // Beyond those, small ones, which the executor runs in one batch: while all of a group's are
  // predicted to take less than this together.
  absl::Duration merge_window = absl::Microseconds(500);
  uint32_t small_pieces_max = 256;
  // The same for a device, which is far: so much is on its way to it.
  absl::Duration device_window = absl::Milliseconds(8);
  // Until the job itself is measured: a piece, and all such pieces of a group together. What its
  // data makes of its cost neither the hint nor the kernel's other jobs can tell.
  absl::Duration unproven_max = absl::Milliseconds(2);
  // The same in leaves of one piece, since what is believed of a job may be wrong by any factor: it
  // costs a long job a round trip or two.
  uint64_t unproven_leaves_max = 16;
  double growth_max = 16;  // beyond a probe, a piece over the largest of the job that has finished
  absl::Duration piece_overhead =
      absl::Microseconds(100);  // the least fixed cost: two processes woken
  absl::Duration piece_overhead_max =
      absl::Milliseconds(1);  // what a fit may say of it: uneven leaves look like one, too
  absl::Duration owner_turn = absl::Milliseconds(50);  // a group's, while another waits
  // Jobs that are asked whether they have something for a group, when those before them have not:
  // of one that is idle, and of one that only looks for its next piece.
  uint32_t asks_idle_max = 64;
  uint32_t asks_busy_max = 4;
  uint32_t looks_max = 1024;         // at jobs that the lane's device may not run
  uint32_t take_back_jobs_max = 64;  // that are looked at, at a time
  // Leaves in a row for which a device has not the memory, before it gets no more of the job,
  // where another here may run it.
  uint32_t too_large_max = 4;
};

// When an accumulator is closed and its partial pushed.
struct FlushOptions {
  double work_to_push = 20;  // work since the last push / its push
  absl::Duration work_min = absl::Milliseconds(100);
  absl::Duration linger = absl::Milliseconds(2);        // idle, while more leaves may come
  absl::Duration push_fixed = absl::Microseconds(200);  // the model of a push
  double push_bytes_per_second = 3e8;                   // written and synced by the master
};

// Of how many grants it is told how devices shared them out: of one job's, and of all together.
struct NoteLimits {
  NoteLimit job = {.burst = 16, .per_second = 10};
  NoteLimit worker = {.burst = 64, .per_second = 200};
};

struct CoreOptions {
  PullOptions pull;
  FlushOptions flush;
  NoteLimits notes;

  uint64_t inline_bytes_per_lease = 512;
  uint64_t inline_bytes_max = 256 << 10;  // of one commit
  uint64_t report_bytes_max = 1 << 20;    // of inline bytes in one report
  uint64_t report_items_max = 4096;

  absl::Duration lease_ttl = absl::Seconds(5);  // until a Welcome says another
  absl::Duration heartbeat = absl::Seconds(1);
  // A master keeps for a while what was pushed and not yet named; after so long it is pushed again.
  absl::Duration push_again_after = absl::Minutes(5);
  absl::Duration push_retry = absl::Milliseconds(500);
  absl::Duration rate_interval = absl::Milliseconds(200);  // between two reports of rates, at least
  absl::Duration rate_refresh = absl::Seconds(5);          // the same of one that is much as it was

  absl::Duration restart_min = absl::Milliseconds(100);  // of an executor that was lost
  absl::Duration restart_max = absl::Seconds(10);
  // Losses in a row that no start page explains, before the jobs concerned are refused …
  uint32_t losses_max = 8;
  uint32_t losses_apart = 2;  // After so many, a job runs alone, so that no other is blamed for it.
  absl::Duration refusal = absl::Seconds(5);  // … for so long: then they may be tried again
  uint32_t merge_tries_max = 3;               // lost executors that one merge may cost
  absl::Duration executor_idle_max = absl::Minutes(5);
  // What runs for a job that is over may end by itself for so long; then its executor is ended.
  absl::Duration void_max = absl::Seconds(2);

  bool kill_when_master_lost = false;  // drop everything one lease TTL after the stream ended
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_OPTIONS_H_
