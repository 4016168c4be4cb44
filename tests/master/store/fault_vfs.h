// FaultVfs: SQLite's own file access with a disk that fills up or fails below it, and a count of
// syncs.
//
// Thread-safety: one test at a time.
#ifndef TANDEM_TESTS_MASTER_STORE_FAULT_VFS_H_
#define TANDEM_TESTS_MASTER_STORE_FAULT_VFS_H_

#include <cstdint>
#include <string>

namespace tandem::master {

class FaultVfs {
 public:
  // kSkip: says OK and does nothing.
  enum class Fault { kNone, kDiskFull, kInputOutput, kSkip };
  struct Faults {
    Fault write = Fault::kNone;
    Fault sync = Fault::kNone;
  };

  // Registers it at the first call; the name to open databases with.
  static std::string Name();
  // From now on.
  static void Set(Faults faults);
  static uint64_t Syncs();
};

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_STORE_FAULT_VFS_H_
