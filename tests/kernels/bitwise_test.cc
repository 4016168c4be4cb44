// The same bytes from the v2, v3 and v4 builds, for 1,000 random cuts each. (Of images:
// image_kernels_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/harness.h"
#include "tests/kernels/isa_test.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

constexpr int kCuts = 1000;

// One way to run a job of `tasks` tasks: gives all output bytes when its tasks are run in the given
// pieces.
using Pieces = std::vector<std::pair<int64_t, int64_t>>;
using Job = std::function<std::vector<uint8_t>(const TandemKernelV1&, const Pieces&)>;

template <class T>
void Append(std::vector<uint8_t>* bytes, const T* p, int64_t n) {
  const auto* b = reinterpret_cast<const uint8_t*>(p);
  bytes->insert(bytes->end(), b, b + n * sizeof(T));
}

class BitwiseTest : public IsaTest {
 protected:
  // The bytes of cuts must be those that the baseline makes of the whole.
  void ExpectSameBytes(const std::string& name, int64_t tasks, const Job& job, int cuts = kCuts) {
    std::mt19937_64 random(7);
    const std::vector<uint8_t> whole =
        job(FindKernel(*tandem_builtin_kernels_for(kBaselineIsa), name), {{0, tasks}});
    const TandemKernelV1& kernel = FindKernel(Builtin(), name);
    EXPECT_EQ(job(kernel, {{0, tasks}}), whole) << name;
    for (int i = 0; i < cuts; ++i) {
      const Pieces pieces = RandomCut(tasks, random);
      // Not EXPECT_EQ: megabytes are not for printing.
      ASSERT_TRUE(job(kernel, pieces) == whole) << name << ", cut " << i;
    }
  }
};
TANDEM_FOR_EACH_ISA(BitwiseTest);

// Floats of all kinds: ordinary ones, and now and then what is none.
std::vector<float> Floats(int64_t n, float low, float high, uint32_t seed, bool odd_ones = true) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> ordinary(low, high);
  std::vector<float> x(n);
  for (float& v : x) {
    v = ordinary(random);
    if (!odd_ones || random() % 16 != 0) continue;
    const float odd[] = {0.0f,
                         -0.0f,
                         -v,
                         1e-42f,
                         3e38f,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
    v = odd[random() % 8];
  }
  return x;
}

// A map of floats to `outputs` arrays of floats; `add` adds operands and scalars.
Job MapJob(int64_t n, int outputs, const std::function<void(PackedArgs*)>& add) {
  return [=](const TandemKernelV1& kernel, const Pieces& pieces) {
    std::vector<std::vector<float>> out(outputs, std::vector<float>(n));
    std::vector<uint8_t> fault(n), bytes;
    PackedArgs args;
    add(&args);
    for (auto& o : out) args.Add(o.data());
    args.Axes({n}, 0);
    for (const auto& [begin, end] : pieces) {
      RunPart(kernel, args, {begin, begin}, end - begin, fault.data() + begin);
    }
    for (auto& o : out) Append(&bytes, o.data(), n);
    Append(&bytes, fault.data(), n);
    return bytes;
  };
}

// A reduction that is exact: pieces gather in one of two partials, which merge.
Job ExactJob(const std::function<PackedArgs()>& make) {
  return [=](const TandemKernelV1& kernel, const Pieces& pieces) {
    const PackedArgs args = make();
    AlignedBytes a = MakePartial(kernel, args, 0), b = MakePartial(kernel, args, 0);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto [begin, end] = pieces[i];
      RunPart(kernel, args, {begin, begin}, end - begin, nullptr, (i % 2 != 0 ? a : b).data());
    }
    EXPECT_EQ(kernel.merge(args.data(), a.data(), 0, b.data(), 0), 0);
    std::vector<uint8_t> bytes;
    Append(&bytes, a.data(), a.size());
    return bytes;
  };
}

TEST_P(BitwiseTest, Saxpy) {
  const int64_t n = 1237;
  const auto x = Floats(n, -1e3f, 1e3f, 1), y = Floats(n, -1e3f, 1e3f, 2);
  ExpectSameBytes("saxpy", n, MapJob(n, 1, [&](PackedArgs* args) {
                    args->Add(1.7f);
                    args->Add(x.data());
                    args->Add(y.data());
                  }));
}

TEST_P(BitwiseTest, BlackScholesWithItsFaults) {
  const int64_t n = 1237;
  const auto s = Floats(n, 10, 200, 1), x = Floats(n, 10, 200, 2), y = Floats(n, 0.01f, 5, 3);
  ExpectSameBytes("black_scholes", n, MapJob(n, 2, [&](PackedArgs* args) {
                    for (const auto* v : {&s, &x, &y}) args->Add(v->data());
                    args->Add(0.03f);
                    args->Add(0.25f);
                  }));
}

TEST_P(BitwiseTest, AsianOption) {
  const int64_t n = 9;
  const auto s = Floats(n, 80, 120, 1, false), x = Floats(n, 80, 120, 2, false),
             y = Floats(n, 0.1f, 3, 3, false);
  ExpectSameBytes("asian_option", n, MapJob(n, 1, [&](PackedArgs* args) {
                    for (const auto* v : {&s, &x, &y}) args->Add(v->data());
                    args->Add(0.03f);
                    args->Add(0.25f);
                    args->Add(int32_t{7});
                    args->Add(int32_t{45});
                    args->Add(uint64_t{99});
                  }));
}

TEST_P(BitwiseTest, NoopAndSpin) {
  const int64_t n = 1001;
  const Job noop = [=](const TandemKernelV1& kernel, const Pieces& pieces) {
    std::vector<uint64_t> value(n);
    PackedArgs args;
    args.Add(uint64_t{5});
    args.Add(value.data());
    args.Axes({n}, 0);
    for (const auto& [begin, end] : pieces) RunPart(kernel, args, {begin, begin}, end - begin);
    std::vector<uint8_t> bytes;
    Append(&bytes, value.data(), n);
    return bytes;
  };
  ExpectSameBytes("noop", n, noop);
  std::vector<uint32_t> work(n);
  for (int64_t i = 0; i < n; ++i) work[i] = i % 5 == 0 ? 0 : i % 37;
  const Job spin = [=](const TandemKernelV1& kernel, const Pieces& pieces) {
    std::vector<uint64_t> value(n);
    PackedArgs args;
    args.Add(work.data());
    args.Add(uint64_t{5});
    args.Add(value.data());
    args.Axes({n}, 0);
    for (const auto& [begin, end] : pieces) RunPart(kernel, args, {begin, begin}, end - begin);
    std::vector<uint8_t> bytes;
    Append(&bytes, value.data(), n);
    return bytes;
  };
  ExpectSameBytes("spin", n, spin);
}

TEST_P(BitwiseTest, BilateralFilter) {
  const int64_t n = 13, h = 17, w = 65;  // a row and a column of a second tile
  const auto image = Floats(n * h * w, 0, 1, 1);
  const Job job = [=, &image](const TandemKernelV1& kernel, const Pieces& pieces) {
    std::vector<float> smooth(n * h * w);
    PackedArgs args;
    args.Add(image.data());
    args.Add(int32_t{2});
    args.Add(1.5f);
    args.Add(0.2f);
    args.Add(smooth.data());
    args.Axes({n, h, w}, 0);
    for (const auto& [begin, end] : pieces) RunPart(kernel, args, {begin, begin}, end - begin);
    std::vector<uint8_t> bytes;
    Append(&bytes, smooth.data(), n * h * w);
    return bytes;
  };
  ExpectSameBytes("bilateral_filter", n, job);
}

TEST_P(BitwiseTest, Mandelbrot) {
  const int64_t n = 1501;
  const Job job = [=](const TandemKernelV1& kernel, const Pieces& pieces) {
    std::vector<int32_t> steps(n);
    PackedArgs args;
    args.Add(int32_t{41});
    args.Add(-2.0);
    args.Add(1.1);
    args.Add(0.07);
    args.Add(int32_t{60});
    args.Add(steps.data());
    args.Axes({n}, 0);
    for (const auto& [begin, end] : pieces) RunPart(kernel, args, {begin, begin}, end - begin);
    std::vector<uint8_t> bytes;
    Append(&bytes, steps.data(), n);
    return bytes;
  };
  ExpectSameBytes("mandelbrot", n, job);
}

TEST_P(BitwiseTest, MonteCarloPi) {
  ExpectSameBytes("monte_carlo_pi", 1999, ExactJob([] {
                    PackedArgs args;
                    args.Add(uint64_t{12345678901234567u});
                    args.Axes({1999}, 0);
                    return args;
                  }));
}

TEST_P(BitwiseTest, Histogram) {
  std::mt19937 random(3);
  std::vector<uint8_t> value(5003);
  for (auto& v : value) v = static_cast<uint8_t>(random() % 200 < 100 ? 7 : random());
  ExpectSameBytes("histogram", 5003, ExactJob([&] {
                    PackedArgs args;
                    args.Add(value.data());
                    args.Axes({5003}, 0);
                    return args;
                  }));
}

TEST_P(BitwiseTest, KmerCount) {
  std::mt19937 random(3);
  const int32_t k = 5;
  std::vector<uint8_t> base(3000 + k - 1);
  for (auto& b : base) b = static_cast<uint8_t>("ACGTacgtACGTACGTN"[random() % 17]);
  for (const uint8_t canonical : {0, 1}) {
    ExpectSameBytes("kmer_count", 3000, ExactJob([&] {
                      PackedArgs args;
                      args.Add(base.data());
                      args.Add(k);
                      args.Add(canonical);
                      args.Axes({3000}, 0);
                      return args;
                    }));
  }
}

TEST_P(BitwiseTest, KmerCountOfLongWordsInBuckets) {
  // As many words as the kernel sorts into buckets before it counts: 4,096 for each of 64.
  constexpr int64_t kTasks = 400'000;
  constexpr int kLongCuts = 50;
  std::mt19937 random(3);
  const int32_t k = 11;
  std::vector<uint8_t> base(kTasks + k - 1);
  for (auto& b : base) b = static_cast<uint8_t>("ACGTacgtACGTACGTN"[random() % 17]);
  ExpectSameBytes("kmer_count", kTasks, ExactJob([&] {
                    PackedArgs args;
                    args.Add(base.data());
                    args.Add(k);
                    args.Add(uint8_t{1});
                    args.Axes({kTasks}, 0);
                    return args;
                  }),
                  kLongCuts);
}

// What merges up the range tree (float sums, merges of a kernel's own): leaves are run whole. A cut
// is a choice of nodes: each is folded by itself into one partial, in any order; then siblings
// merge up to the root.
class TreeJob {
 public:
  static constexpr int64_t kLeaves = 16;

  TreeJob(std::string kernel, int64_t leaf, int64_t tasks, PackedArgs args)
      : name_(std::move(kernel)), leaf_(leaf), tasks_(tasks), args_(std::move(args)) {}

  // The bytes of cuts must be those that the baseline makes of the whole as one node.
  void ExpectSameBytes(const TandemLibraryV1& library) const {
    std::mt19937_64 random(1);
    const auto whole =
        Run(FindKernel(*tandem_builtin_kernels_for(kBaselineIsa), name_), {{0, kLeaves}});
    const TandemKernelV1& kernel = FindKernel(library, name_);
    for (int i = 0; i < kCuts; ++i) {
      std::vector<Node> cut;
      Cut({0, kLeaves}, &random, &cut);
      std::shuffle(cut.begin(), cut.end(), random);
      ASSERT_TRUE(Run(kernel, cut) == whole) << name_ << ", cut " << i;
    }
  }

 private:
  using Node = std::pair<int64_t, int64_t>;  // first leaf, leaves
  static Node Left(Node node) { return {node.first, node.second / 2}; }
  static Node Right(Node node) { return {node.first + node.second / 2, node.second / 2}; }
  int64_t First(Node node) const { return node.first * leaf_; }
  int64_t Tasks(Node node) const { return std::min(node.second * leaf_, tasks_ - First(node)); }

  static void Cut(Node node, std::mt19937_64* random, std::vector<Node>* cut) {
    if (node.second == 1 || (*random)() % 4 == 0) return cut->push_back(node);
    Cut(Left(node), random, cut);
    Cut(Right(node), random, cut);
  }

  std::vector<uint8_t> Run(const TandemKernelV1& kernel, const std::vector<Node>& cut) const {
    std::vector<uint8_t> fault(tasks_), bytes;
    std::map<Node, AlignedBytes> partials;
    for (const Node& node : cut) partials.emplace(node, Fold(kernel, node, fault.data()));
    const AlignedBytes result = Merge(kernel, {0, kLeaves}, &partials);
    Append(&bytes, result.data(), result.size());
    Append(&bytes, fault.data(), tasks_);
    return bytes;
  }
  AlignedBytes Joined(const TandemKernelV1& kernel, Node node, const AlignedBytes& left,
                      const AlignedBytes& right) const {
    AlignedBytes into = MakePartial(kernel, args_, Tasks(node));  // has room for both
    std::copy_n(left.data(), left.size(), into.data());
    EXPECT_EQ(kernel.merge(args_.data(), into.data(), Tasks(Left(node)), right.data(),
                           Tasks(Right(node))),
              0);
    return into;
  }
  AlignedBytes Fold(const TandemKernelV1& kernel, Node node, uint8_t* fault) const {
    if (node.second > 1) {
      return Joined(kernel, node, Fold(kernel, Left(node), fault),
                    Fold(kernel, Right(node), fault));
    }
    AlignedBytes partial = MakePartial(kernel, args_, Tasks(node));
    RunPart(kernel, args_, {First(node), First(node)}, Tasks(node), fault + First(node),
            partial.data());
    return partial;
  }
  AlignedBytes Merge(const TandemKernelV1& kernel, Node node,
                     std::map<Node, AlignedBytes>* partials) const {
    if (const auto found = partials->find(node); found != partials->end()) {
      return std::move(found->second);
    }
    return Joined(kernel, node, Merge(kernel, Left(node), partials),
                  Merge(kernel, Right(node), partials));
  }

  std::string name_;
  int64_t leaf_, tasks_;
  PackedArgs args_;
};

TEST_P(BitwiseTest, GradientUpTheRangeTreeForAnyCutIntoNodes) {
  constexpr int64_t kLeaf = 48, kTasks = kLeaf * TreeJob::kLeaves - 5, kDimension = 37;
  const auto x = Floats(kTasks * kDimension, -2, 2, 1, false),
             w = Floats(kDimension, -1, 1, 2, false);
  std::vector<float> label;
  for (int64_t i = 0; i < kTasks; ++i) {
    label.push_back(i % 7 == 3 ? 0.5f : static_cast<float>(i * i % 3 == 1));
  }
  PackedArgs args;
  args.Add(x.data());
  args.Add(label.data());
  args.Add(w.data());
  args.Axes({kTasks, kDimension}, 0);
  TreeJob("gradient", kLeaf, kTasks, args).ExpectSameBytes(Builtin());
}

TEST_P(BitwiseTest, SortUpTheRangeTreeForAnyCutIntoNodes) {
  constexpr int64_t kLeaf = 61, kTasks = kLeaf * TreeJob::kLeaves - 17;
  std::mt19937_64 random(5);
  std::vector<int64_t> key(kTasks);  // some often, some once, the ends of the range
  for (int64_t& k : key) {
    k = static_cast<int64_t>(random() % 4 == 0 ? random() % 9 : random());
  }
  key[3] = std::numeric_limits<int64_t>::min();
  key[400] = std::numeric_limits<int64_t>::max();
  PackedArgs args;
  args.Add(key.data());
  args.Axes({kTasks}, 0);
  TreeJob("sort", kLeaf, kTasks, args).ExpectSameBytes(Builtin());
}

TEST_P(BitwiseTest, LinearIsTheSameForAnyCutOfEitherAxis) {
  const int64_t n = 23, m = 19, k = 37;
  const auto x = Floats(n * k, -1, 1, 1, false), w = Floats(m * k, -1, 1, 2, false),
             b = Floats(m, -1, 1, 3, false);
  const TandemKernelV1& kernel = FindKernel(Builtin(), "linear");
  std::vector<float> whole;
  std::mt19937_64 random(1);
  for (int i = 0; i < kCuts; ++i) {
    const int64_t split = i % 2;
    std::vector<float> y(n * m, -1);
    PackedArgs args;
    args.Add(x.data());
    args.Add(w.data());
    args.Add(b.data());
    args.Add(y.data());
    args.Axes({n, m, k}, split);
    for (const auto& [begin, end] : RandomCut(split == 0 ? n : m, random)) {
      RunPart(kernel, args, {begin, begin}, end - begin);
    }
    if (i == 0) whole = y;
    ASSERT_EQ(y, whole) << "cut " << i;
  }
}

}  // namespace
}  // namespace tandem
