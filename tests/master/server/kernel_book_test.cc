// Which build of a kernel a bare name means.
#include "master/server/kernel_book.h"

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "gtest/gtest.h"

namespace tandem::master {
namespace {

KernelInfo Build(uint64_t hash, const std::string& name = "mine") {
  KernelInfo kernel;
  kernel.name = name;
  kernel.signature = *Signature::Parse("x[n]:f32 -> y[n]:f32");
  kernel.content_hash = hash;
  return kernel;
}

class KernelBookTest : public ::testing::Test {
 protected:
  void Announce(const KernelInfo& kernel) {
    book_.Announce(std::make_shared<const KernelInfo>(kernel));
  }
  uint64_t Named(const std::string& name = "mine") { return (*book_.Find(name))->content_hash; }
  void Count(const KernelInfo& kernel, uint64_t workers) {
    book_.Count({{kernel.name, kernel.identity(), workers}});
  }

  KernelBook book_;
  const KernelInfo a_ = Build(1), b_ = Build(2);
};

TEST_F(KernelBookTest, ABareNameIsTheBuildThatCameLastAmongThoseThatWorkersHave) {
  Announce(b_);
  EXPECT_EQ(Named(), 2u);
  Announce(a_);
  EXPECT_EQ(Named(), 1u);
  book_.Prefer({b_});
  EXPECT_EQ(Named(), 2u);
  Count(a_, 3);
  EXPECT_EQ(Named(), 1u);  // Only that one is there.
  Count(b_, 1);
  EXPECT_EQ(Named(), 2u);
  book_.Prefer({a_});
  EXPECT_EQ(Named(), 1u);
  Count(a_, 0);
  EXPECT_EQ(Named(), 2u);
  EXPECT_EQ((*book_.Find(a_.identity()))->content_hash, 1u);
}

TEST_F(KernelBookTest, ABuiltInKernelGoesBeforeAnotherReleasesUnlessNoWorkerHasIt) {
  const uint64_t builtin = Named("noop");
  const KernelInfo older = Build(builtin + 1, "noop");
  Announce(older);
  EXPECT_EQ(Named("noop"), builtin);
  Count(older, 1);
  EXPECT_EQ(Named("noop"), builtin + 1);
  Count(Build(builtin, "noop"), 1);
  EXPECT_EQ(Named("noop"), builtin);
}

TEST_F(KernelBookTest, ExactlyOneBuildOfANameIsCurrent) {
  Announce(a_);
  Announce(b_);
  Announce(b_);
  Count(a_, 1);
  int listed = 0, current = 0;
  for (const KnownKernel& kernel : book_.List("", 1000)) {
    if (kernel.info->name != "mine") continue;
    ++listed;
    if (!kernel.current) continue;
    ++current;
    EXPECT_EQ(kernel.info->content_hash, Named());
    EXPECT_EQ(kernel.workers, 1u);
  }
  EXPECT_EQ(listed, 2);
  EXPECT_EQ(current, 1);
  EXPECT_EQ(ReasonOf(book_.Find(Build(3).identity()).status()), reason::kKernelChanged);
}

}  // namespace
}  // namespace tandem::master
