#include "tests/master/store/fault_vfs.h"

#include <sqlite3.h>

#include <atomic>
#include <map>
#include <mutex>

namespace tandem::master {
namespace {

std::atomic<FaultVfs::Fault> write_fault{FaultVfs::Fault::kNone};
std::atomic<FaultVfs::Fault> sync_fault{FaultVfs::Fault::kNone};
std::atomic<uint64_t> syncs{0};

int Code(FaultVfs::Fault fault, int input_output) {
  switch (fault) {
    case FaultVfs::Fault::kNone:
    case FaultVfs::Fault::kSkip:
      return SQLITE_OK;
    case FaultVfs::Fault::kDiskFull:
      return SQLITE_FULL;
    case FaultVfs::Fault::kInputOutput:
      return input_output;
  }
  return SQLITE_OK;
}

// A file's methods: the real ones, and a copy of them with two replaced. The copy comes first, so
// that it can be taken for the whole.
struct Methods {
  sqlite3_io_methods ours;
  const sqlite3_io_methods* real;
};

sqlite3_vfs our_vfs;
int (*real_open)(sqlite3_vfs*, sqlite3_filename, sqlite3_file*, int, int*) = nullptr;

const sqlite3_io_methods* Real(sqlite3_file* file) {
  return reinterpret_cast<const Methods*>(file->pMethods)->real;
}

int Write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  const int code = Code(write_fault, SQLITE_IOERR_WRITE);
  return code != SQLITE_OK ? code : Real(file)->xWrite(file, bytes, size, offset);
}

int Sync(sqlite3_file* file, int flags) {
  ++syncs;
  if (sync_fault == FaultVfs::Fault::kSkip) return SQLITE_OK;
  const int code = Code(sync_fault, SQLITE_IOERR_FSYNC);
  return code != SQLITE_OK ? code : Real(file)->xSync(file, flags);
}

// Databases and logs have different methods; there are few kinds, and they are never freed.
int Open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  const int code = real_open(vfs, name, file, flags, out);
  if (code != SQLITE_OK || file->pMethods == nullptr) return code;
  static std::mutex mutex;
  static std::map<const sqlite3_io_methods*, Methods>* kinds =
      new std::map<const sqlite3_io_methods*, Methods>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto [it, added] = kinds->try_emplace(file->pMethods);
  if (added) {
    it->second = {*file->pMethods, file->pMethods};
    it->second.ours.xWrite = Write;
    it->second.ours.xSync = Sync;
  }
  file->pMethods = &it->second.ours;
  return code;
}

}  // namespace

std::string FaultVfs::Name() {
  static std::once_flag once;
  std::call_once(once, [] {
    sqlite3_initialize();
    our_vfs = *sqlite3_vfs_find("unix-excl");
    our_vfs.zName = "tandem-fault";
    our_vfs.pNext = nullptr;
    real_open = our_vfs.xOpen;
    our_vfs.xOpen = Open;
    sqlite3_vfs_register(&our_vfs, 0);
  });
  Set({});
  return "tandem-fault";
}

void FaultVfs::Set(Faults faults) {
  write_fault = faults.write;
  sync_fault = faults.sync;
}

uint64_t FaultVfs::Syncs() { return syncs; }

}  // namespace tandem::master
