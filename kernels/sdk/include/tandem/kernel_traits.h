// What a kernel struct declares, and whether its Args and Partial follow from its signature.
//
// Thread-safety: compile-time only.
#ifndef TANDEM_KERNEL_TRAITS_H_
#define TANDEM_KERNEL_TRAITS_H_

#include "tandem/config.h"
#include "tandem/group.h"
#include "tandem/reduce.h"
#include "tandem/signature.h"
#include "tandem/stage.h"
#include "tandem/task.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

template <class T>
T Declare();

#define TANDEM_OPTIONAL_CONSTANT_(Trait, member, type, fallback) \
  template <class K, class = void>                               \
  struct Trait {                                                 \
    static constexpr type value = fallback;                      \
  };                                                             \
  template <class K>                                             \
  struct Trait<K, Void<decltype(K::member)>> {                   \
    static constexpr type value = K::member;                     \
  }
TANDEM_OPTIONAL_CONSTANT_(SummaryOf, kSummary, const char*, "");
TANDEM_OPTIONAL_CONSTANT_(CostUnitsOf, kCostUnits, const char*, "1");
TANDEM_OPTIONAL_CONSTANT_(GrainOf, kGrain, int64_t, 0);
TANDEM_OPTIONAL_CONSTANT_(ToleranceOf, kTolerance, double, 0);
TANDEM_OPTIONAL_CONSTANT_(TaskThreadsOf, kTaskThreads, int32_t, 0);

inline constexpr const char* kNoFaults[] = {"ok"};
template <class K, class = void>
struct FaultsOf {
  static constexpr const char* const* value = kNoFaults;
  static constexpr uint32_t count = 1;
};
template <class K>
struct FaultsOf<K, Void<decltype(K::kFaults)>> {
  static constexpr const char* const* value = K::kFaults;
  static constexpr uint32_t count = sizeof(K::kFaults) / sizeof(K::kFaults[0]);
};

struct NoPartial {};
template <class K, class = void>
struct PartialOf {
  using type = NoPartial;
};
template <class K>
struct PartialOf<K, Void<typename K::Partial>> {
  using type = typename K::Partial;
};

#define TANDEM_HAS_MEMBER_(Trait, expression) \
  template <class K, class = void>            \
  inline constexpr bool Trait = false;        \
  template <class K>                          \
  inline constexpr bool Trait<K, Void<decltype(expression)>> = true
TANDEM_HAS_MEMBER_(kHasName, K::kName);
TANDEM_HAS_MEMBER_(kHasSignature, K::kSignature);
TANDEM_HAS_MEMBER_(kHasClass, K::kClass);
TANDEM_HAS_MEMBER_(kHasCost, K::kCostNs);
TANDEM_HAS_MEMBER_(kHasArgs, Declare<typename K::Args>());
TANDEM_HAS_MEMBER_(kHasEach, &K::Each);
TANDEM_HAS_MEMBER_(kHasRange, &K::Range);
TANDEM_HAS_MEMBER_(kHasBlock, &K::Block);
TANDEM_HAS_MEMBER_(kHasItem, &K::Item);
TANDEM_HAS_MEMBER_(kHasCpu, &K::Cpu);
TANDEM_HAS_MEMBER_(kHasLaunch, &K::Launch);
TANDEM_HAS_MEMBER_(kHasCheap, &K::Cheap);
TANDEM_HAS_MEMBER_(kHasMerge, &K::Merge);
TANDEM_HAS_MEMBER_(kHasScratch, &K::ScratchBytes);
TANDEM_HAS_MEMBER_(kHasShared, &K::SharedBytes);

// Own loops and launches; a CUDA compiler sees the launch alone.
template <class K>
inline constexpr bool kIsOwn = kHasCpu<K> || kHasLaunch<K>;

template <class K>
inline constexpr ParsedSignature kSignatureOf = ParseSignature(K::kSignature);
template <class K>
inline constexpr TaskAxes kTaskAxes = TaskAxesOf(kSignatureOf<K>);
template <class K>
inline constexpr bool kHasPartial = !kSame<typename PartialOf<K>::type, NoPartial>;

// The members of an aggregate, by structured bindings.

struct AnyMember {
  template <class T>
  operator T() const;
};
template <class A, class = void, class... Any>
struct CountMembers {
  static constexpr int value = static_cast<int>(sizeof...(Any)) - 1;
};
template <class A, class... Any>
struct CountMembers<A, Void<decltype(A{Any{}...})>, Any...>
    : CountMembers<A, void, Any..., AnyMember> {};

template <int N>
struct Number {};
template <class... T>
struct List {};

#define TANDEM_MEMBERS_(count, ...)                      \
  template <class A, class F>                            \
  TANDEM_FN auto WithMembers(Number<count>, A& a, F f) { \
    auto& [__VA_ARGS__] = a;                             \
    return f(__VA_ARGS__);                               \
  }                                                      \
  template <class A>                                     \
  constexpr auto MemberTypes(Number<count>, A& a) {      \
    auto& [__VA_ARGS__] = a;                             \
    return TANDEM_TYPES_(__VA_ARGS__);                   \
  }
template <class... T>
constexpr List<T...> TypesOf(T&...);
#define TANDEM_TYPES_(...) \
  decltype(TypesOf(__VA_ARGS__)) {}
TANDEM_MEMBERS_(1, a1)
TANDEM_MEMBERS_(2, a1, a2)
TANDEM_MEMBERS_(3, a1, a2, a3)
TANDEM_MEMBERS_(4, a1, a2, a3, a4)
TANDEM_MEMBERS_(5, a1, a2, a3, a4, a5)
TANDEM_MEMBERS_(6, a1, a2, a3, a4, a5, a6)
TANDEM_MEMBERS_(7, a1, a2, a3, a4, a5, a6, a7)
TANDEM_MEMBERS_(8, a1, a2, a3, a4, a5, a6, a7, a8)
TANDEM_MEMBERS_(9, a1, a2, a3, a4, a5, a6, a7, a8, a9)
TANDEM_MEMBERS_(10, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)
TANDEM_MEMBERS_(11, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11)
TANDEM_MEMBERS_(12, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12)
TANDEM_MEMBERS_(13, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13)
TANDEM_MEMBERS_(14, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14)
TANDEM_MEMBERS_(15, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15)
TANDEM_MEMBERS_(16, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
#undef TANDEM_MEMBERS_
#undef TANDEM_TYPES_

template <class T>
constexpr bool Holds(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return kSame<T, bool> || kSame<T, uint8_t>;
    case Dtype::kU8:
      return kSame<T, uint8_t>;
    case Dtype::kI8:
      return kSame<T, int8_t>;
    case Dtype::kI16:
      return kSame<T, int16_t>;
    case Dtype::kI32:
      return kSame<T, int32_t>;
    case Dtype::kU32:
      return kSame<T, uint32_t>;
    case Dtype::kI64:
      return kSame<T, int64_t>;
    case Dtype::kU64:
      return kSame<T, uint64_t>;
    case Dtype::kF16:
      return kSame<T, f16>;
    case Dtype::kBf16:
      return kSame<T, bf16>;
    case Dtype::kF32:
      return kSame<T, float>;
    case Dtype::kF64:
      return kSame<T, double>;
    case Dtype::kBytes:
      return kSame<T, Bytes> || kSame<T, Sink>;
    default:
      return false;
  }
}

// The element type behind a pointer-like member of Args; void for a scalar.
template <class T>
struct Pointee {
  using type = void;
};
template <class T>
struct Pointee<T*> {
  using type = T;
};
template <template <class> class View, class T>
struct Pointee<View<T>> {
  using type = T;
};

template <class T>
constexpr bool Fits(const Field& f) {
  using Element = typename Pointee<T>::type;
  if (f.scalar()) return Holds<T>(f.dtype);
  if constexpr (kSame<Element, void>) {
    return false;
  } else {
    bool bytes = f.dtype == Dtype::kBytes, sink = kSame<Unqualified<Element>, Sink>;
    bool constant = f.output && !bytes ? !kConst<Element> : kConst<Element>;
    return Holds<Unqualified<Element>>(f.dtype) && constant && (!bytes || sink == f.output);
  }
}

template <class... T>
constexpr bool ArgsFollow(const ParsedSignature& s, List<T...>) {
  using Check = bool (*)(const Field&);
  constexpr Check kFits[] = {&Fits<T>...};
  constexpr bool kExtent[] = {kSame<T, int64_t>...};
  int member = 0, members = sizeof...(T);
  for (int i = 0; i < s.fields && member < members; ++i) {
    if (s.field[i].offset < 0) continue;
    if (!kFits[member++](s.field[i])) return false;
  }
  for (int i = 0; i <= s.axes && member < members; ++i) {
    if (!kExtent[member++]) return false;
  }
  return member == members;
}

template <class K>
constexpr bool ArgsFollowSignature() {
  using Args = typename K::Args;
  constexpr int kMembers = CountMembers<Args>::value;
  if constexpr (kMembers == 0) {
    return true;
  } else {
    return ArgsFollow(kSignatureOf<K>,
                      decltype(MemberTypes(Number<kMembers>{}, Declare<Args&>())){});
  }
}

template <class P, class = void>
inline constexpr bool kIsReducer = false;
template <class P>
inline constexpr bool kIsReducer<P, Void<typename P::Element>> = true;

// Calls f(reducer, …) with the reducers of a partial.
template <class P, class F>
TANDEM_FN auto WithReducers(P& partial, F f) {
  if constexpr (kIsReducer<P>) {
    return f(partial);
  } else {
    return WithMembers(Number<CountMembers<P>::value>{}, partial, f);
  }
}

template <class P>
struct ReducersOf {
  using type = decltype(MemberTypes(Number<CountMembers<P>::value>{}, Declare<P&>()));
};
template <class P, bool>
struct ReducerList {
  using type = List<P>;
};
template <class P>
struct ReducerList<P, false> {
  using type = typename ReducersOf<P>::type;
};

template <class... R>
constexpr bool AnyInLanes(List<R...>) {
  return (R::kInLanes || ...);
}
template <class... R>
constexpr bool AllAreInside(List<R...>) {
  return (R::kInside && ...);
}
template <class... R>
constexpr bool PartialFollows(const ParsedSignature& s, List<R...>) {
  constexpr Reduction kReductions[] = {R::kReduction...};
  constexpr bool kInside[] = {R::kInside...};
  using Check = bool (*)(Dtype);
  constexpr Check kHolds[] = {&Holds<typename R::Element>...};
  int member = 0, members = sizeof...(R);
  for (int i = 0; i < s.fields; ++i) {
    const Field& f = s.field[i];
    if (f.reduction == Reduction::kNone) continue;
    if (member == members || kReductions[member] != f.reduction || !kHolds[member](f.dtype))
      return false;
    if (kInside[member] != (f.rank == 0)) return false;
    ++member;
  }
  return member == members;
}

template <class K>
constexpr bool PartialFollowsSignature() {
  using P = typename PartialOf<K>::type;
  if constexpr (kHasMerge<K>) {
    return true;
  } else if constexpr (!kHasPartial<K>) {
    return kSignatureOf<K>.reductions == 0;
  } else {
    return PartialFollows(kSignatureOf<K>, typename ReducerList<P, kIsReducer<P>>::type{});
  }
}

template <class K>
constexpr bool InLanes() {
  using P = typename PartialOf<K>::type;
  if constexpr (!kHasPartial<K>) {
    return false;
  } else {
    return AnyInLanes(typename ReducerList<P, kIsReducer<P>>::type{});
  }
}

template <class K>
constexpr bool AllInside() {
  using P = typename PartialOf<K>::type;
  return AllAreInside(typename ReducerList<P, kIsReducer<P>>::type{});
}

template <class K>
constexpr bool CheckKernel() {
  static_assert(kHasName<K>, "a kernel needs kName, what it is called in jobs");
  static_assert(kHasSignature<K>, "a kernel needs kSignature, what it computes");
  static_assert(kHasClass<K>, "a kernel needs kClass, whose bytes are the same (OutputClass)");
  static_assert(kHasCost<K>, "a kernel needs kCostNs, about how long a unit of work takes");
  static_assert(kHasArgs<K>, "a kernel needs Args, the layout of its signature");
  static_assert(kSignatureOf<K>.error == nullptr, "kSignature cannot be read");
  static_assert(ArgsFollowSignature<K>(),
                "Args does not follow from kSignature: see tandem/abi.h for its layout");
  static_assert(
      PartialFollowsSignature<K>(),
      "Partial needs one reducer for each output with a reduction, in the signature's order");
  static_assert(__is_trivially_copyable(typename K::Args), "Args is copied to devices");
  static_assert(kHasEach<K> + kHasBlock<K> + kHasItem<K> + kIsOwn<K> == 1,
                "a kernel has one form: Each, Block, Item or its own Cpu and Launch");
  static_assert(TaskThreadsOf<K>::value >= 0 && TaskThreadsOf<K>::value <= 1024,
                "kTaskThreads is at most a block's 1024");
  static_assert(kHasBlock<K> || TaskThreadsOf<K>::value == 0, "kTaskThreads is for Block");
  static_assert(K::kClass != OutputClass::kTolerant || ToleranceOf<K>::value > 0,
                "class tolerant needs kTolerance");
  return true;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_KERNEL_TRAITS_H_
