// Jobs bound from a signature's text, for tests that need no master.
//
// Thread-safety: pure functions.
#ifndef TANDEM_TESTS_MASTER_SERVER_BIND_H_
#define TANDEM_TESTS_MASTER_SERVER_BIND_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/model/bound_job.h"
#include "master/core/records.h"

namespace tandem::master {

inline KernelInfo KernelOf(const std::string& signature) {
  KernelInfo kernel;
  kernel.name = "k";
  kernel.content_hash = 1;
  kernel.output_class = OutputClass::kExact;
  absl::StatusOr<Signature> parsed = Signature::Parse(signature);
  CHECK_OK(parsed);
  kernel.signature = *std::move(parsed);
  return kernel;
}

// `axes`: the extents that no operand gives.
inline std::shared_ptr<const JobAccepted> AcceptedJob(uint64_t id, const std::string& signature,
                                                      std::map<std::string, int64_t> axes,
                                                      uint64_t grain,
                                                      const std::string& split = "") {
  JobSpec spec;
  spec.owner = "ada";
  spec.kernel = "k";
  spec.axis_extents = std::move(axes);
  spec.grain = grain;
  spec.split_axis = split;
  absl::StatusOr<BoundJob> bound = ValidateAndBind(std::move(spec), KernelOf(signature));
  CHECK_OK(bound);
  auto accepted = std::make_shared<JobAccepted>();
  accepted->job = JobId(id);
  accepted->bound = std::make_shared<const BoundJob>(*std::move(bound));
  accepted->request_id = "r";
  accepted->request_hash = 7;
  accepted->submitted = absl::FromUnixNanos(1'700'000'000'123'456'789);
  return accepted;
}

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_SERVER_BIND_H_
