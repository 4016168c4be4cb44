// What processes have used, from /proc.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_BENCH_SUPPORT_PROCESS_STAT_H_
#define TANDEM_BENCH_SUPPORT_PROCESS_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace tandem::bench {

// CPU time, user and system, of one process and of its children that have ended and were waited
// for; 0 when there is no such process.
double CpuSeconds(pid_t pid);
double OwnCpuSeconds();

// Live children.
std::vector<pid_t> ChildrenOf(pid_t pid);

// Memory that is the process's own (anonymous and shared memory; no mapped files).
uint64_t OwnMemoryBytes(pid_t pid);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_PROCESS_STAT_H_
