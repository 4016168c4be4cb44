// Failpoints: named places where a test makes our own code fail, stall or die.
//
//   RETURN_IF_ERROR(TANDEM_FAILPOINT("store.before_sync"));
//
//   TANDEM_FAILPOINTS="store.before_sync=3*off->crash;worker.report=20%sleep(50)"
//
// A program says what each does, from the environment at its first use or through SetFailpoint. A
// specification is a chain of terms joined by "->"; each term is [P%][N*]action, and a term with N
// is used up after N hits. With P, a hit acts in P of 100 cases, by a generator seeded by
// TANDEM_FAILPOINTS_SEED. Actions: off, crash (SIGKILL to the own process), error (the place
// returns INTERNAL), sleep(ms), pause (waits until the failpoint is set anew or cleared).
//
// The macro is an OK status, and costs nothing, unless the build option TANDEM_FAILPOINTS is on.
// Thread-safety: safe from any thread.
#ifndef TANDEM_COMMON_BASE_FAILPOINT_H_
#define TANDEM_COMMON_BASE_FAILPOINT_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace tandem {

// Sets what `name` does from now on, replacing what it did. Errors: INVALID_ARGUMENT for a
// specification that cannot be read, naming the term.
absl::Status SetFailpoint(std::string_view name, std::string_view specification);
// Sets each `name=specification` of a list separated by ';'. Nothing is set when one is bad.
absl::Status SetFailpoints(std::string_view list);
// Makes every failpoint do nothing and wakes those paused. Hit counts start again from 0.
void ClearFailpoints();

// How often `name` was passed since the last ClearFailpoints. Counted only for failpoints that
// have a specification, be it "off".
uint64_t FailpointHits(std::string_view name);
// Waits until FailpointHits(name) >= hits. REQUIRES: the failpoint has a specification.
void WaitForFailpoint(std::string_view name, uint64_t hits);

namespace internal {
absl::Status PassFailpoint(std::string_view name);
}  // namespace internal

#ifdef TANDEM_FAILPOINTS
#define TANDEM_FAILPOINT(name) ::tandem::internal::PassFailpoint(name)
#else
#define TANDEM_FAILPOINT(name) ::absl::OkStatus()
#endif

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_FAILPOINT_H_
