// Every capability: for those who bind a spec that another has judged already, where it only has to
// make sense (a journal that is replayed, a worker that was given a job, a fuzzer).
//
// Thread-safety: a constant.
#ifndef TANDEM_COMMON_MODEL_ALL_CAPABILITIES_H_
#define TANDEM_COMMON_MODEL_ALL_CAPABILITIES_H_

#include "common/model/bound_job.h"

namespace tandem {

inline constexpr Capabilities kAllCapabilities = {.cpus = true,
                                                  .memory = true,
                                                  .gpus = true,
                                                  .gpu_memory = true,
                                                  .time_limit = true,
                                                  .after = true,
                                                  .job_outputs = true,
                                                  .commands = true,
                                                  .retries = true,
                                                  .crash_limit = true,
                                                  .priority = true,
                                                  .reproducible = true,
                                                  .paths = true};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_ALL_CAPABILITIES_H_
