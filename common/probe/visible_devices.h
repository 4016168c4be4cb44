// What CUDA_VISIBLE_DEVICES leaves of a machine's GPUs, in words.
//
//   DescribeVisible("0-3")
//     "CUDA_VISIBLE_DEVICES='0-3': '0-3' is no index and no UUID, and CUDA reads no ranges; write
//     …"
//
// CUDA itself says nothing of it: it stops at the first entry that it cannot read.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_PROBE_VISIBLE_DEVICES_H_
#define TANDEM_COMMON_PROBE_VISIBLE_DEVICES_H_

#include <optional>
#include <string>

namespace tandem {

struct VisibleDevices {
  enum class Kind {
    kAll,   // not set: every device
    kNone,  // set so that there is none: empty, "NoDevFiles", "-1"
    kSome,  // indices or UUIDs
    kJunk,  // an entry that CUDA cannot read, or reads otherwise than it is meant
  };
  Kind kind = Kind::kAll;
  std::string text;  // a sentence for people
  std::string mend;  // of junk and none: what to do
};
// `value`: of the environment's variable; nothing where it is not set.
VisibleDevices DescribeVisible(const std::optional<std::string>& value);

}  // namespace tandem

#endif  // TANDEM_COMMON_PROBE_VISIBLE_DEVICES_H_
