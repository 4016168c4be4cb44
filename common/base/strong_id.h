// StrongId<Tag>: an integer id that cannot be mistaken for another id or for a number.
//
//   using JobId = StrongId<struct JobTag>;
//   JobId id(7);  id.value() == 7;  JobId{} == JobId(0), which by convention names nothing.
//
// Ordered, hashable (absl and std), printable. Thread-safety: a value type.
#ifndef TANDEM_COMMON_BASE_STRONG_ID_H_
#define TANDEM_COMMON_BASE_STRONG_ID_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

namespace tandem {

template <class Tag, class Rep = uint64_t>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  // False for the id that names nothing.
  constexpr bool valid() const { return value_ != 0; }
  // The id that follows this one.
  constexpr StrongId next() const { return StrongId(value_ + 1); }

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;

  template <class H>
  friend H AbslHashValue(H h, const StrongId& id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) {
    return out << +id.value_;
  }
  std::string ToString() const { return std::to_string(value_); }

 private:
  Rep value_ = 0;
};

}  // namespace tandem

template <class Tag, class Rep>
struct std::hash<tandem::StrongId<Tag, Rep>> {
  size_t operator()(const tandem::StrongId<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>()(id.value());
  }
};

#endif  // TANDEM_COMMON_BASE_STRONG_ID_H_
