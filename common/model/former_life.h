// How a report says that leaves were running when a former life of the worker ended: as crashes of
// a lease that nobody has. They count once an incarnation of the worker.
//
// Thread-safety: plain data.
#ifndef TANDEM_COMMON_MODEL_FORMER_LIFE_H_
#define TANDEM_COMMON_MODEL_FORMER_LIFE_H_

#include <cstdint>
#include <limits>

namespace tandem {

inline constexpr uint64_t kFormerLife = std::numeric_limits<uint64_t>::max();

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_FORMER_LIFE_H_
