// kmer_count: how often each word of k bases occurs in a sequence; task i is the word that begins
// at base i.
//
// A, C, G and T in either case are 0, 1, 2, 3, the first base the most significant; a word with any
// other letter is not counted. With `canonical` a word counts as the smaller of itself and its
// reverse complement. Counts wrap at 2^32.
//
// Source: Marçais, Kingsford: A fast, lock-free approach for efficient parallel counting of
// occurrences of k-mers, Bioinformatics 27, 2011.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_KMER_COUNT_KMER_COUNT_H_
#define TANDEM_KERNELS_KMER_COUNT_KMER_COUNT_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct KmerCount {
  static constexpr char kName[] = "kmer_count";
  static constexpr char kSummary[] = "counts the words of k bases in a sequence";
  static constexpr char kSignature[] =
      "base[n + k - 1]:u8, k:i32 = 11 in [1, 15], canonical:bool = false -> count[4^k]:u32 : sum";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 3;
  static constexpr int64_t kGrain = 1 << 20;  // what the buckets of a long word need to fill

  struct Args {
    tandem::Window<const uint8_t> base;
    int32_t k;
    uint8_t canonical;
  };
  using Partial = tandem::Counts<uint32_t>;

  // 0 … 3, or 4 for what is no base.
  TANDEM_FN static uint32_t CodeOf(uint8_t letter) {
    const uint32_t upper = letter & 0xdfu, low = (upper >> 1) & 3u;  // A C T G: 0 1 2 3
    const uint32_t code = low ^ (low >> 1);
    // The letter that has this code, compared with the one that came.
    const uint32_t expected = 0x54474341u >> (8 * code) & 0xffu;
    return upper == expected ? code : 4u;
  }

  TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& count) {
    const tandem::Row<const uint8_t> base = a.base(t);
    uint32_t word = 0, reverse = 0, broken = 0;
    for (int32_t j = 0; j < a.k; ++j) {
      const uint32_t code = CodeOf(base[j]);
      broken |= code & 4u;
      word = word << 2 | (code & 3u);
      reverse |= (3u - (code & 3u)) << (2 * j);
    }
    if (broken == 0) count.add(a.canonical != 0 && reverse < word ? reverse : word, 1);
  }

#if TANDEM_CPU_FORMS
  // Counts of long words are spread over more memory than a cache holds: their low halves are first
  // sorted into buckets by their high bits, so that a full bucket counts within 256 KiB.
  static int64_t ScratchBytes(const Args& a) {
    return Buckets(a.k) > 1
               ? Buckets(a.k) * (kBucket * int64_t{sizeof(uint16_t)} + int64_t{sizeof(uint16_t*)})
               : 0;
  }

  static int64_t Range(const tandem::Run& run, const Args& a, Partial& count) {
    const uint8_t* base = a.base(run.first).data();
    if (Buckets(a.k) > 1 && run.tasks >= kFewWords * Buckets(a.k)) {
      BucketCounter counter(a.k, run.scratch, count.p);
      RollBy(base, run.tasks, a, &counter);
      counter.FlushAll();
    } else {
      DirectCounter counter{count.p};
      RollBy(base, run.tasks, a, &counter);
    }
    return 0;
  }

 private:
  static constexpr int32_t kBlock = 2048;  // bases decoded, rolled into words and counted at a time
  static constexpr int32_t kEight = 8;     // bases that a step packs
  static constexpr int32_t kBucket = 32768;  // words that a bucket holds
  static constexpr int64_t kFewWords =
      4096;  // fewer in a bucket do not repay reading its counts in order
  static constexpr int32_t kAhead = 24;                // how far before its turn a count is fetched
  static constexpr int32_t kLowBits = 16, kLine = 16;  // counts in a cache line
  static constexpr int64_t kSweepFrom = 2048;

  // Counts of shorter words fit into the cache, and those of longer ones need too many buckets.
  TANDEM_FN static int64_t Buckets(int32_t k) {
    return k >= 11 && k <= 12 ? int64_t{1} << (2 * k - kLowBits) : 1;
  }

  struct DirectCounter {
    uint32_t* count;

    // `word` has room for kAhead more.
    void Add(uint32_t* word, int32_t n) const {
      for (int32_t j = 0; j < kAhead; ++j) word[n + j] = 0;
      for (int32_t j = 0; j < n; ++j) {
        __builtin_prefetch(&count[word[j + kAhead]], 1);
        ++count[word[j]];
      }
    }
  };

  class BucketCounter {
   public:
    BucketCounter(int32_t k, void* scratch, uint32_t* count)
        : buckets_(Buckets(k)), count_(count), words_(static_cast<uint16_t*>(scratch)) {
      end_ = reinterpret_cast<uint16_t**>(words_ + buckets_ * kBucket);
      for (int64_t b = 0; b < buckets_; ++b) end_[b] = words_ + b * kBucket;
    }

    void Add(const uint32_t* word, int32_t n) {
      for (int32_t j = 0; j < n; ++j) *end_[word[j] >> kLowBits]++ = static_cast<uint16_t>(word[j]);
      for (int64_t b = 0; b < buckets_; ++b) {
        if (end_[b] > words_ + b * kBucket + (kBucket - kBlock)) Flush(b);
      }
    }
    void FlushAll() {
      for (int64_t b = 0; b < buckets_; ++b) Flush(b);
    }

   private:
    void Flush(int64_t b) {
      uint32_t* const count = count_ + (b << kLowBits);
      uint16_t* const begin = words_ + b * kBucket;
      const int64_t n = end_[b] - begin;
      // Read in order, the counts come into the cache ten times sooner than one by one.
      if (n >= kSweepFrom) {
        uint32_t sum = 0;
        for (int32_t i = 0; i < 1 << kLowBits; i += kLine) sum += count[i];
        __asm__ volatile("" ::"r"(sum));  // keeps the loads
      }
      for (int64_t j = 0; j < n; ++j) ++count[begin[j]];
      end_[b] = begin;
    }

    int64_t buckets_;
    uint32_t* count_;
    uint16_t* words_;
    uint16_t** end_;
  };

  template <class Counter>
  static void RollBy(const uint8_t* base, int64_t tasks, const Args& a, Counter* counter) {
    if (a.canonical != 0) {
      Roll<true>(base, tasks, a.k, counter);
    } else {
      Roll<false>(base, tasks, a.k, counter);
    }
  }

  // Blocks of words; each decodes its own first k - 1 bases again, so it needs nothing of the block
  // before.
  template <bool kCanonical, class Counter>
  static void Roll(const uint8_t* base, int64_t tasks, int32_t k, Counter* counter) {
    uint8_t code[kBlock + 2 * kEight + kEight] = {};
    uint32_t word[kBlock + kEight + kAhead];
    for (int64_t begin = 0; begin < tasks; begin += kBlock) {
      const int64_t left = tasks - begin;
      const int32_t n = static_cast<int32_t>(left < kBlock ? left : kBlock);
      const uint32_t broken = Decode(base + begin, n + k - 1, code);
      Words<kCanonical>(code, n, k, word);
      counter->Add(word, broken == 0 ? n : DropBroken(code, n, k, word));
    }
  }

  // Returns a value that is not 0 if any letter is no base; such a one has bit 2 of its code set.
  static uint32_t Decode(const uint8_t* base, int32_t n, uint8_t* code) {
    uint32_t any = 0;
    for (int32_t j = 0; j < n; ++j) {
      const uint8_t upper = base[j] & 0xdf, low = (upper >> 1) & 3;
      const uint8_t c = low ^ (low >> 1);
      const uint8_t wrong = (c == 0 && upper != 'A') | (c == 1 && upper != 'C') |
                            (c == 2 && upper != 'G') | (c == 3 && upper != 'T');
      code[j] = static_cast<uint8_t>(c | wrong << 2);
      any |= wrong;
    }
    return any;
  }

  // The low two bits of eight codes, the first in the highest bits.
  TANDEM_FN static uint64_t Pack(const uint8_t* code) {
    uint64_t v;
    __builtin_memcpy(&v, code, sizeof(v));
    v = __builtin_bswap64(v) & 0x0303030303030303u;
    v = (v | v >> 6) & 0x000f000f000f000fu;
    v = (v | v >> 12) & 0x000000ff000000ffu;
    return (v | v >> 24) & 0xffffu;
  }

  // word[j] of codes j … j + k - 1, for 0 <= j < n; eight at a time, each a shift of one register
  // of 24 codes, of which the last k - 1 may lie beyond the block.
  template <bool kCanonical>
  static void Words(const uint8_t* code, int32_t n, int32_t k, uint32_t* word) {
    const uint64_t mask = 0xffffffffu >> (32 - 2 * k);
    uint64_t forward = Pack(code) << 16 | Pack(code + kEight);
    const int32_t top = 2 * (3 * kEight - k);  // the first of 24 codes begins a word here
    for (int32_t j = 0; j < n; j += kEight) {
      forward = (forward << 16 | Pack(code + j + 2 * kEight)) & 0xffffffffffffu;
      const uint64_t reverse = kCanonical ? ReverseComplement(forward) : 0;
      for (int32_t i = 0; i < kEight; ++i) {
        const uint32_t w = static_cast<uint32_t>(forward >> (top - 2 * i) & mask);
        const uint32_t r = static_cast<uint32_t>(reverse >> (2 * i) & mask);
        word[j + i] = kCanonical && r < w ? r : w;
      }
    }
  }

  // Of 24 codes: the last becomes the first, A and T change places, C and G too.
  TANDEM_FN static uint64_t ReverseComplement(uint64_t v) {
    v = __builtin_bswap64(~v << 16);
    v = (v & 0x0f0f0f0f0f0f0f0fu) << 4 | (v >> 4 & 0x0f0f0f0f0f0f0f0fu);
    return (v & 0x3333333333333333u) << 2 | (v >> 2 & 0x3333333333333333u);
  }

  // Leaves out words with a broken code; returns how many stay.
  static int32_t DropBroken(const uint8_t* code, int32_t n, int32_t k, uint32_t* word) {
    int32_t kept = 0, valid = 0;  // valid: codes since the last broken one
    for (int32_t j = 0; j < k - 1; ++j) valid = code[j] > 3 ? 0 : valid + 1;
    for (int32_t j = 0; j < n; ++j) {
      valid = code[j + k - 1] > 3 ? 0 : valid + 1;
      word[kept] = word[j];
      kept += valid >= k;
    }
    return kept;
  }
#endif  // TANDEM_CPU_FORMS
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_KMER_COUNT_KMER_COUNT_H_
