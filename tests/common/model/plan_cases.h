// Jobs of every form, run by naive kernels on the packed slices that a plan names: for tests that
// any cut of any job merges to the unsplit result.
//
//   for (const Case& c : Cases()) {
//     const Instance instance = Make(c, tasks, grain, &rng);
//     Assembly assembly(c, instance.job);
//     for (…) assembly.Take(plan, RunPlan(c, instance, plan));
//     EXPECT_EQ(assembly.results(), RunWhole(c, instance));
//   }
//
// Thread-safety: values; an Assembly is one thread's. Ownership: an Assembly refers to its case and
// job.
#ifndef TANDEM_TESTS_COMMON_MODEL_PLAN_CASES_H_
#define TANDEM_TESTS_COMMON_MODEL_PLAN_CASES_H_

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/model/bound_job.h"
#include "common/model/plan.h"

namespace tandem::plan_cases {

using Buffers = std::vector<std::string>;

// What a kernel sees: packed operands of local shapes, and which tasks to run.
struct Call {
  const BoundJob& job;
  Buffers operands;
  std::vector<Shape> shapes;
  TaskRange tasks;

  int64_t scalar(size_t i) const { return *job.scalars[i].AsInt64(); }
  uint64_t extent(size_t operand, size_t dim) const {
    return static_cast<uint64_t>(shapes[operand][dim]);
  }
  template <class T>
  T At(size_t operand, std::initializer_list<uint64_t> index) const {
    const Shape& shape = shapes[operand];
    EXPECT_EQ(index.size(), shape.size());
    uint64_t flat = 0;
    size_t d = 0;
    for (const uint64_t i : index) {
      EXPECT_LT(i, static_cast<uint64_t>(shape[d]));
      flat = flat * static_cast<uint64_t>(shape[d++]) + i;
    }
    T value{};
    EXPECT_LE((flat + 1) * sizeof(T), operands[operand].size());
    std::memcpy(&value, operands[operand].data() + flat * sizeof(T), sizeof(T));
    return value;
  }
};

using Run = std::function<Buffers(const Call&)>;
using Merge = std::function<std::string(const std::string&, const std::string&)>;

struct Case {
  std::string name;
  std::string signature;
  std::string split;  // "" for the default.
  // A task count to shapes of the operands.
  std::function<std::vector<Shape>(int64_t)> shapes;
  std::map<std::string, Scalar> scalars;
  bool given = false;  // The job gives the extent of the axis.
  Run run;
  std::vector<Merge> merges;  // By output; null where it is placed.
};

std::vector<Case> Cases();

// A job of a case with random data.
struct Instance {
  BoundJob job;
  Buffers data;
};

Instance Make(const Case& c, uint64_t tasks, uint64_t grain, Rng* rng);

Buffers RunWhole(const Case& c, const Instance& instance);

// Gathers the slices of a plan and runs the kernel on them.
Buffers RunPlan(const Case& c, const Instance& instance, const Plan& plan);

// Places a packed slice into a whole tensor.
void Scatter(const StridedSlice& slice, const void* packed, void* whole);

// The results of all pieces so far.
class Assembly {
 public:
  Assembly(const Case& c, const BoundJob& job);
  void Take(const Plan& plan, const Buffers& pieces);
  const Buffers& results() const { return results_; }

 private:
  const Case& case_;
  const BoundJob& job_;
  Buffers results_;
  bool any_ = false;
};

}  // namespace tandem::plan_cases

#endif  // TANDEM_TESTS_COMMON_MODEL_PLAN_CASES_H_
