// PageLog: a device's start log kept in the start page that outlives the process.
//
// Thread-safety: as StartLog. Ownership: the page outlives the log.
#ifndef TANDEM_WORKER_EXECUTOR_PAGE_LOG_H_
#define TANDEM_WORKER_EXECUTOR_PAGE_LOG_H_

#include <cstdint>

#include "worker/device/device.h"
#include "worker/ring/start_page.h"

namespace tandem::worker {

class PageLog final : public StartLog {
 public:
  explicit PageLog(StartPage* page) : page_(page) {}

  void Begin(uint32_t slot, uint64_t job, uint64_t first_leaf, uint64_t leaves,
             uint64_t task) override {
    StartSlot record = page_->slot(slot);
    record.Start(job, first_leaf, leaves);
    if (task != kNoTask) record.StartTask(task);
  }
  void End(uint32_t slot) override { page_->slot(slot).Finish(); }

 private:
  StartPage* const page_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_PAGE_LOG_H_
