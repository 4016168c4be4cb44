// One whole job through a cluster on this machine's CPUs and GPUs together, against what both could
// do by what each takes alone: 1 / (1 / Tc + 1 / Tg); and jobs of one task each, queued at once.
//
// Thread-safety: one thread.
#ifndef TANDEM_BENCH_SUPPORT_WHOLE_JOB_H_
#define TANDEM_BENCH_SUPPORT_WHOLE_JOB_H_

#include "bench/support/report.h"
#include "bench/support/settings.h"

namespace tandem::bench {

// REQUIRES: a worker finds a GPU here.
void MeasureWholeJobs(const Settings& settings, Report* report);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_WHOLE_JOB_H_
