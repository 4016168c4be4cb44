// The states of a job, and which may follow which.
//
// PENDING, RUNNING and MERGING say what happens now and are not durable; the last three are, once
// their JobEnded record is. Thread-safety: value types.
#ifndef TANDEM_MASTER_CORE_JOB_PHASE_H_
#define TANDEM_MASTER_CORE_JOB_PHASE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/model/outputs.h"
#include "master/core/events.h"

namespace tandem::master {

struct Pending {};  // No leaf has been granted yet.
struct Running {};
struct Merging {};  // Every leaf is done; partials are being merged.
struct Succeeded {
  OutputsHandle result;  // The final partial, or null for a job without reduced outputs.
};
struct Failed {
  std::string reason;
};
struct Cancelled {};

// In the order of JobState.
using JobPhase = std::variant<Pending, Running, Merging, Succeeded, Failed, Cancelled>;

inline constexpr size_t kJobPhases = std::variant_size_v<JobPhase>;

// kJobMoves[from][to]: may a job go from one to the other?
inline constexpr bool kJobMoves[kJobPhases][kJobPhases] = {
    // pending, running, merging, succeeded, failed, cancelled
    {false, true, true, true, true, true},       // pending (no tasks: straight to an end)
    {false, false, true, true, true, true},      // running
    {false, false, false, true, true, true},     // merging
    {false, false, false, false, false, false},  // succeeded: nothing follows an end
    {false, false, false, false, false, false},  // failed
    {false, false, false, false, false, false},  // cancelled
};

inline JobState StateOf(const JobPhase& phase) { return static_cast<JobState>(phase.index()); }
inline bool Ended(const JobPhase& phase) { return phase.index() >= 3; }

// REQUIRES: the move is in kJobMoves.
inline void Move(JobPhase* phase, JobPhase next) {
  CHECK(kJobMoves[phase->index()][next.index()]);
  *phase = std::move(next);
}

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_JOB_PHASE_H_
