// The signature language at compile time: what a kernel's Args and Partial must look like, and how
// large its outputs are.
//
//   constexpr ParsedSignature s = ParseSignature("value[n]:u8 -> count[256]:u32 : sum");
//   static_assert(s.error == nullptr);
//
// The language is defined in common/model; this reader takes what it needs (names, extents, types,
// reductions), skips defaults and bounds, and leaves full diagnosis to the model.
//
// Thread-safety: pure functions.
#ifndef TANDEM_SIGNATURE_H_
#define TANDEM_SIGNATURE_H_

#include "tandem/config.h"
#include "tandem/reduce.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

enum class Dtype : uint8_t {
  kNone,
  kBool,
  kU8,
  kI8,
  kI16,
  kI32,
  kI64,
  kU32,
  kU64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kBytes
};

constexpr int kMaxFields = 16, kMaxAxes = 8, kMaxRank = 4;

// Characters [begin, end) of the signature's text.
struct Span {
  int begin = 0, end = 0;
};

struct Field {
  Span name;
  Dtype dtype = Dtype::kNone;
  int rank = 0;
  Span extent[kMaxRank] = {};
  bool output = false;
  Reduction reduction = Reduction::kNone;
  int64_t offset = 0;  // in Args; -1 for an output with a reduction

  // A scalar parameter (an output of rank 0 is none).
  constexpr bool scalar() const { return rank == 0 && !output; }
};

struct DeclaredAxis {
  Span name;
  int before = 0;  // declared before this field
};

struct ParsedSignature {
  const char* text = nullptr;
  Field field[kMaxFields] = {};
  int fields = 0;
  DeclaredAxis declared[kMaxAxes] = {};
  int declarations = 0;
  Span axis[kMaxAxes] = {};  // in the order of first occurrence
  int axes = 0;
  int64_t axes_offset = 0;  // in Args: the extents, then the index of the split axis
  int64_t args_bytes = 0;
  int reductions = 0;
  const char* error = nullptr;
};

constexpr int64_t DtypeBytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kU8:
    case Dtype::kI8:
      return 1;
    case Dtype::kI16:
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kI32:
    case Dtype::kU32:
    case Dtype::kF32:
      return 4;
    default:
      return 8;
  }
}

// Reads a signature's text from left to right.
class SignatureReader {
 public:
  constexpr explicit SignatureReader(const char* text) { s_.text = text; }

  constexpr ParsedSignature Read() {
    bool output = false;
    SkipSpace();
    if (At("->")) {
      at_ += 2;
      output = true;
    }
    while (s_.error == nullptr) {
      ReadField(output);
      SkipSpace();
      if (At(",")) {
        ++at_;
      } else if (!output && At("->")) {
        at_ += 2;
        output = true;
      } else {
        break;
      }
    }
    SkipSpace();
    if (s_.error == nullptr && s_.text[at_] != 0) s_.error = "unexpected text after a field";
    if (s_.error == nullptr && !output) s_.error = "no outputs: '->' is missing";
    if (s_.error == nullptr) FindAxes();
    if (s_.error == nullptr) LayOut();
    return s_;
  }

 private:
  static constexpr bool IsLetter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  static constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  constexpr bool At(const char* token) const {
    for (int i = 0; token[i] != 0; ++i) {
      if (s_.text[at_ + i] != token[i]) return false;
    }
    return true;
  }
  constexpr void SkipSpace() {
    while (s_.text[at_] == ' ' || s_.text[at_] == '\n') ++at_;
  }
  constexpr Span ReadName() {
    SkipSpace();
    Span name{at_, at_};
    if (!IsLetter(s_.text[at_])) s_.error = "a name was expected";
    while (IsLetter(s_.text[at_]) || IsDigit(s_.text[at_])) ++at_;
    name.end = at_;
    return name;
  }
  constexpr bool Is(Span span, const char* word) const {
    int i = span.begin;
    for (; i < span.end && *word != 0; ++i, ++word) {
      if (s_.text[i] != *word) return false;
    }
    return i == span.end && *word == 0;
  }
  constexpr bool Equal(Span a, Span b) const {
    if (a.end - a.begin != b.end - b.begin) return false;
    for (int i = 0; i < a.end - a.begin; ++i) {
      if (s_.text[a.begin + i] != s_.text[b.begin + i]) return false;
    }
    return true;
  }

  constexpr Dtype ReadDtype() {
    Span word = ReadName();
    constexpr const char* kNames[] = {"",    "bool", "u8",  "i8",   "i16", "i32", "i64",
                                      "u32", "u64",  "f16", "bf16", "f32", "f64", "bytes"};
    for (int i = 1; i < 14; ++i) {
      if (Is(word, kNames[i])) return static_cast<Dtype>(i);
    }
    s_.error = "unknown dtype";
    return Dtype::kNone;
  }

  constexpr void ReadField(bool output) {
    if (s_.fields == kMaxFields) {
      s_.error = "more than 16 operands and outputs";
      return;
    }
    Field f;
    f.output = output;
    f.name = ReadName();
    SkipSpace();
    if (!output && Is(f.name, "axis") && IsLetter(s_.text[at_])) {
      DeclareAxis();
      return;
    }
    if (s_.error == nullptr && At("[")) {
      ++at_;
      ReadExtents(&f);
    }
    SkipSpace();
    if (s_.error == nullptr && !At(":")) s_.error = "':' and a dtype were expected";
    if (s_.error != nullptr) return;
    ++at_;
    f.dtype = ReadDtype();
    SkipSpace();
    if (output && At(":")) {
      ++at_;
      Span word = ReadName();
      f.reduction = Is(word, "sum")     ? Reduction::kSum
                    : Is(word, "min")   ? Reduction::kMin
                    : Is(word, "max")   ? Reduction::kMax
                    : Is(word, "merge") ? Reduction::kOwn
                                        : Reduction::kNone;
      if (f.reduction == Reduction::kNone) s_.error = "unknown reduction";
      ++s_.reductions;
    }
    SkipQualifiers();
    s_.field[s_.fields++] = f;
  }

  constexpr void DeclareAxis() {
    if (s_.declarations == kMaxAxes) {
      s_.error = "more than 8 axes";
      return;
    }
    s_.declared[s_.declarations++] = DeclaredAxis{ReadName(), s_.fields};
  }

  constexpr void ReadExtents(Field* f) {
    int depth = 0;
    Span extent{at_, at_};
    for (;; ++at_) {
      char c = s_.text[at_];
      if (c == 0) {
        s_.error = "']' is missing";
        return;
      }
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (depth == 0 && (c == ',' || c == ']')) {
        if (f->rank == kMaxRank) {
          s_.error = "more than 4 dimensions";
          return;
        }
        extent.end = at_;
        f->extent[f->rank++] = extent;
        extent.begin = at_ + 1;
        if (c == ']') {
          ++at_;
          return;
        }
      }
    }
  }

  // Defaults, bounds and classes: up to the next field.
  constexpr void SkipQualifiers() {
    int depth = 0;
    for (; s_.text[at_] != 0; ++at_) {
      char c = s_.text[at_];
      if (depth == 0 && (c == ',' || At("->"))) return;
      if (c == '[' || c == '(' || c == '{') ++depth;
      if (c == ']' || c == ')' || c == '}') --depth;
    }
  }

  constexpr void AddAxis(Span name) {
    for (int i = 0; i < s_.fields; ++i) {
      if (s_.field[i].scalar() && Equal(s_.field[i].name, name)) return;
    }
    for (int i = 0; i < s_.axes; ++i) {
      if (Equal(s_.axis[i], name)) return;
    }
    if (s_.axes == kMaxAxes) {
      s_.error = "more than 8 axes";
      return;
    }
    s_.axis[s_.axes++] = name;
  }
  constexpr void AddAxes(Span span) {
    for (int i = span.begin; i < span.end;) {
      if (!IsLetter(s_.text[i])) {
        ++i;
        continue;
      }
      Span name{i, i};
      while (i < span.end && (IsLetter(s_.text[i]) || IsDigit(s_.text[i]))) ++i;
      name.end = i;
      AddAxis(name);
    }
  }
  constexpr void FindAxes() {
    int next = 0;
    for (int i = 0; i <= s_.fields; ++i) {
      while (next < s_.declarations && s_.declared[next].before == i) {
        AddAxis(s_.declared[next++].name);
      }
      for (int r = 0; i < s_.fields && r < s_.field[i].rank; ++r) AddAxes(s_.field[i].extent[r]);
    }
  }

  constexpr void LayOut() {
    int64_t offset = 0;
    for (int i = 0; i < s_.fields; ++i) {
      Field& f = s_.field[i];
      if (f.output && f.reduction != Reduction::kNone) {
        f.offset = -1;
        continue;
      }
      int64_t bytes = f.scalar() ? DtypeBytes(f.dtype) : 8;
      offset = (offset + bytes - 1) / bytes * bytes;
      f.offset = offset;
      offset += bytes;
    }
    s_.axes_offset = (offset + 7) / 8 * 8;
    s_.args_bytes = s_.axes_offset + 8 * (s_.axes + 1);
  }

  ParsedSignature s_;
  int at_ = 0;
};

constexpr ParsedSignature ParseSignature(const char* text) { return SignatureReader(text).Read(); }

// The axes that a job may split, separated by spaces: those declared, else the first.
struct TaskAxes {
  char text[128] = {};
};
constexpr TaskAxes TaskAxesOf(const ParsedSignature& s) {
  TaskAxes axes;
  int at = 0;
  for (int i = 0; i < (s.declarations > 0 ? s.declarations : s.axes > 0); ++i) {
    const Span name = s.declarations > 0 ? s.declared[i].name : s.axis[0];
    if (i > 0) axes.text[at++] = ' ';
    for (int c = name.begin; c < name.end && at < 126; ++c) axes.text[at++] = s.text[c];
  }
  return axes;
}

// The value of an extent for filled `args`: integers, axes, scalars, + - * / ^ and parentheses.
class ExtentReader {
 public:
  ExtentReader(const ParsedSignature& s, const void* args, Span span)
      : s_(s), args_(static_cast<const char*>(args)), at_(span.begin), end_(span.end) {}

  int64_t Read() {
    int64_t v = Product();
    for (;; SkipSpace()) {
      SkipSpace();
      if (at_ == end_ || (s_.text[at_] != '+' && s_.text[at_] != '-')) return v;
      bool plus = s_.text[at_++] == '+';
      int64_t w = Product();
      v = plus ? v + w : v - w;
    }
  }

 private:
  void SkipSpace() {
    while (at_ < end_ && s_.text[at_] == ' ') ++at_;
  }
  int64_t Product() {
    int64_t v = Power();
    for (;;) {
      SkipSpace();
      if (at_ == end_ || (s_.text[at_] != '*' && s_.text[at_] != '/')) return v;
      bool times = s_.text[at_++] == '*';
      int64_t w = Power();
      v = times ? v * w : w == 0 ? 0 : v / w;
    }
  }
  int64_t Power() {
    int64_t base = Atom();
    SkipSpace();
    if (at_ == end_ || s_.text[at_] != '^') return base;
    ++at_;
    uint64_t v = 1;
    for (int64_t e = Power(); e > 0; --e) v *= static_cast<uint64_t>(base);
    return static_cast<int64_t>(v);
  }
  int64_t Atom() {
    SkipSpace();
    if (at_ == end_) return 0;
    char c = s_.text[at_];
    if (c == '(') {
      ++at_;
      int64_t v = Read();
      SkipSpace();
      if (at_ < end_) ++at_;
      return v;
    }
    if (c >= '0' && c <= '9') {
      int64_t v = 0;
      for (; at_ < end_ && s_.text[at_] >= '0' && s_.text[at_] <= '9'; ++at_)
        v = v * 10 + (s_.text[at_] - '0');
      return v;
    }
    int begin = at_;
    while (at_ < end_ && IsWord(s_.text[at_])) ++at_;
    return begin == at_ ? (++at_, 0) : Lookup(begin, at_);
  }
  static bool IsWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
  }
  static bool Same(const char* text, Span a, const char* word, int length) {
    if (a.end - a.begin != length) return false;
    for (int i = 0; i < length; ++i) {
      if (text[a.begin + i] != word[i]) return false;
    }
    return true;
  }
  template <class T>
  T Load(int64_t offset) const {
    T value;
    __builtin_memcpy(&value, args_ + offset, sizeof(T));
    return value;
  }
  int64_t Lookup(int begin, int end) const {
    const char* word = s_.text + begin;
    for (int i = 0; i < s_.axes; ++i) {
      if (Same(s_.text, s_.axis[i], word, end - begin)) {
        return Load<int64_t>(s_.axes_offset + 8 * i);
      }
    }
    for (int i = 0; i < s_.fields; ++i) {
      const Field& f = s_.field[i];
      if (!f.scalar() || !Same(s_.text, f.name, word, end - begin)) continue;
      switch (f.dtype) {
        case Dtype::kBool:
        case Dtype::kU8:
          return Load<uint8_t>(f.offset);
        case Dtype::kI8:
          return Load<int8_t>(f.offset);
        case Dtype::kI16:
          return Load<int16_t>(f.offset);
        case Dtype::kI32:
          return Load<int32_t>(f.offset);
        case Dtype::kU32:
          return Load<uint32_t>(f.offset);
        case Dtype::kI64:
        case Dtype::kU64:
          return Load<int64_t>(f.offset);
        default:
          return 0;
      }
    }
    return 0;
  }

  const ParsedSignature& s_;
  const char* args_;
  int at_, end_;
};

// How many elements a field has.
inline int64_t FieldElements(const ParsedSignature& s, int field, const void* args) {
  int64_t n = 1;
  for (int r = 0; r < s.field[field].rank; ++r)
    n *= ExtentReader(s, args, s.field[field].extent[r]).Read();
  return n;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_SIGNATURE_H_
