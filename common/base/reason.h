// Every stable reason token that an error of Tandem can carry: the one list.
//
// A token is what scripts match on; it is the same in an absl::Status, in the RPC's ErrorInfo and
// in the command's JSON. Tokens are added, never renamed. Messages are for people and may change.
//
//   return Error(absl::StatusCode::kNotFound, reason::kUnknownKernel, "no kernel named …");
#ifndef TANDEM_COMMON_BASE_REASON_H_
#define TANDEM_COMMON_BASE_REASON_H_

#include <string_view>

// X(constant, token). Grouped by who finds the error.
#define TANDEM_REASONS(X)                      \
  /* Text that people type. */                 \
  X(BadArgument, "BAD_ARGUMENT")               \
  X(BadSize, "BAD_SIZE")                       \
  X(BadDuration, "BAD_DURATION")               \
  X(Ambiguous, "AMBIGUOUS")                    \
  X(UnknownCommand, "UNKNOWN_COMMAND")         \
  X(UnknownOption, "UNKNOWN_OPTION")           \
  X(MissingArgument, "MISSING_ARGUMENT")       \
  X(UnexpectedArgument, "UNEXPECTED_ARGUMENT") \
  X(UnknownSetting, "UNKNOWN_SETTING")         \
  X(BadSettings, "BAD_SETTINGS")               \
  X(Interrupted, "INTERRUPTED")                \
  /* Kernels and their signatures. */          \
  X(BadSignature, "BAD_SIGNATURE")             \
  X(UnknownKernel, "UNKNOWN_KERNEL")           \
  X(KernelChanged, "KERNEL_CHANGED")           \
  /* A job's specification. */                 \
  X(MissingOperand, "MISSING_OPERAND")         \
  X(UnknownOperand, "UNKNOWN_OPERAND")         \
  X(MissingScalar, "MISSING_SCALAR")           \
  X(UnknownScalar, "UNKNOWN_SCALAR")           \
  X(ScalarOutOfRange, "SCALAR_OUT_OF_RANGE")   \
  X(DtypeMismatch, "DTYPE_MISMATCH")           \
  X(ShapeMismatch, "SHAPE_MISMATCH")           \
  X(UnknownAxis, "UNKNOWN_AXIS")               \
  X(AxisNotSplittable, "AXIS_NOT_SPLITTABLE")  \
  X(MissingAxisExtent, "MISSING_AXIS_EXTENT")  \
  X(TooLarge, "TOO_LARGE")                     \
  X(BadLocator, "BAD_LOCATOR")                 \
  X(BadResources, "BAD_RESOURCES")             \
  X(BadSpec, "BAD_SPEC")                       \
  X(LimitExceeded, "LIMIT_EXCEEDED")           \
  X(NotYetHonoured, "NOT_YET_HONOURED")        \
  X(Unsatisfiable, "UNSATISFIABLE")            \
  X(QuotaExceeded, "QUOTA_EXCEEDED")           \
  /* Jobs. */                                  \
  X(JobNotFound, "JOB_NOT_FOUND")              \
  X(JobDeleted, "JOB_DELETED")                 \
  X(JobFinished, "JOB_FINISHED")               \
  X(JobCancelled, "JOB_CANCELLED")             \
  X(JobFailed, "JOB_FAILED")                   \
  X(RequestIdReused, "REQUEST_ID_REUSED")      \
  X(ResultNotReady, "RESULT_NOT_READY")        \
  X(OutputNotFound, "OUTPUT_NOT_FOUND")        \
  X(NotOwner, "NOT_OWNER")                     \
  X(BadPageToken, "BAD_PAGE_TOKEN")            \
  /* Tasks and the processes that run them. */ \
  X(TaskFailed, "TASK_FAILED")                 \
  X(ExecutorLost, "EXECUTOR_LOST")             \
  X(WorkerLost, "WORKER_LOST")                 \
  X(CrashLimit, "CRASH_LIMIT")                 \
  X(TimeLimit, "TIME_LIMIT")                   \
  X(OutOfMemory, "OUT_OF_MEMORY")              \
  X(DeviceFault, "DEVICE_FAULT")               \
  X(NoGpu, "NO_GPU")                           \
  X(GpuOom, "GPU_OOM")                         \
  /* Bytes. */                                 \
  X(BlobNotFound, "BLOB_NOT_FOUND")            \
  X(BlobInUse, "BLOB_IN_USE")                  \
  X(SegmentNotFound, "SEGMENT_NOT_FOUND")      \
  X(ChecksumMismatch, "CHECKSUM_MISMATCH")     \
  X(PathChanged, "PATH_CHANGED")               \
  X(PathUnreadable, "PATH_UNREADABLE")         \
  X(PathUnwritable, "PATH_UNWRITABLE")         \
  X(PathExists, "PATH_EXISTS")                 \
  X(Truncated, "TRUNCATED")                    \
  X(DiskFull, "DISK_FULL")                     \
  X(BadFile, "BAD_FILE")                       \
  /* Sessions, stores and servers. */          \
  X(StaleEpoch, "STALE_EPOCH")                 \
  X(StaleLease, "STALE_LEASE")                 \
  X(StoreCorrupt, "STORE_CORRUPT")             \
  X(StoreLocked, "STORE_LOCKED")               \
  X(StoreFailed, "STORE_FAILED")               \
  X(JournalFull, "JOURNAL_FULL")               \
  X(JournalIo, "JOURNAL_IO")                   \
  X(WorkerNotFound, "WORKER_NOT_FOUND")        \
  X(WorkerNameInUse, "WORKER_NAME_IN_USE")     \
  X(VersionSkew, "VERSION_SKEW")               \
  X(ProtocolError, "PROTOCOL_ERROR")           \
  X(Insecure, "INSECURE")                      \
  X(AddressInUse, "ADDRESS_IN_USE")            \
  X(MasterUnavailable, "MASTER_UNAVAILABLE")   \
  X(Overloaded, "OVERLOADED")                  \
  X(SlowConsumer, "SLOW_CONSUMER")             \
  X(ShuttingDown, "SHUTTING_DOWN")             \
  X(LimitTooLow, "LIMIT_TOO_LOW")              \
  X(ClockSkew, "CLOCK_SKEW")                   \
  X(Internal, "INTERNAL")

namespace tandem::reason {

#define TANDEM_DEFINE_REASON(name, token) inline constexpr std::string_view k##name = token;
TANDEM_REASONS(TANDEM_DEFINE_REASON)
#undef TANDEM_DEFINE_REASON

#define TANDEM_LIST_REASON(name, token) k##name,
inline constexpr std::string_view kAll[] = {TANDEM_REASONS(TANDEM_LIST_REASON)};
#undef TANDEM_LIST_REASON

}  // namespace tandem::reason

#endif  // TANDEM_COMMON_BASE_REASON_H_
