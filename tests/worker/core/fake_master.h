// A master for tests of the worker's core: grants leaves, checks and counts what is committed,
// takes leases away, restarts. It keeps a plain map of leaves: an oracle without the range tree.
//
// Thread-safety: one thread.
#ifndef TANDEM_TESTS_WORKER_CORE_FAKE_MASTER_H_
#define TANDEM_TESTS_WORKER_CORE_FAKE_MASTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/core/fake_executors.h"
#include "worker/core/events.h"

namespace tandem::worker {

class FakeMaster {
 public:
  FakeMaster(Rng* rng, std::map<JobId, FakeJob>* jobs) : rng_(rng), jobs_(jobs) {}

  // Answers a Hello: describes jobs, adopts what it still wants of it.
  void Attach(const SendHello& hello, std::vector<Event>* events);
  void Restart() { ++epoch_; }
  // Grants something, if anything is free.
  void GrantSome(std::vector<Event>* events);
  void RecallSome(std::vector<Event>* events);
  void GrantMerge(std::vector<Event>* events);
  // Takes a report; acknowledges later (or now).
  void Take(const Report& report);
  void AckAll(std::vector<Event>* events);
  // Writes pushed bytes into a segment.
  Region Store(std::string bytes);

  bool AllDone() const;
  uint64_t held() const;
  uint64_t merges_open() const { return merges_.size(); }
  const std::vector<std::string>& complaints() const { return complaints_; }
  uint64_t crashes() const { return crashes_; }
  uint64_t returned() const { return returned_; }
  uint64_t commits() const { return commits_; }
  uint64_t late() const { return late_; }
  uint64_t committed_leaves() const { return committed_; }

 private:
  struct Leaf {
    bool done = false;
    uint64_t n = 0;  // the lease that holds it; 0: free
    bool suspect = false;
    uint32_t attempt = 1;
  };
  std::vector<Leaf>& LeavesOf(JobId job);
  void TakeCommit(const Commit& commit);
  void CheckOutputs(const FakeJob& job, const Commit& commit);
  std::string BytesOf(const Commit& commit);
  bool Holds(JobId job, const LeafRun& run);
  Grant MakeGrant(JobId job, uint64_t first, uint8_t level, uint64_t count);

  Rng* const rng_;
  std::map<JobId, FakeJob>* const jobs_;
  std::map<JobId, std::vector<Leaf>> leaves_;
  std::map<std::pair<JobId, uint64_t>, std::pair<uint8_t, uint64_t>> runs_;  // n → level, first
  std::map<uint64_t, JobId> merges_;
  std::map<uint64_t, std::string> segments_;
  uint64_t epoch_ = 1;
  uint64_t next_n_ = 1;
  uint64_t last_set_ = 1;
  uint64_t last_report_ = 0;
  std::vector<std::string> complaints_;
  uint64_t crashes_ = 0, returned_ = 0, commits_ = 0, late_ = 0, committed_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_CORE_FAKE_MASTER_H_
