#include "csrc/compiler/job_table.h"

#include <gtest/gtest.h>

namespace dendrite::compiler {
namespace {

// Makes and finishes jobs, which only a service may.
class Jobs : public CompileService {
 public:
  static std::shared_ptr<CompileJob> Make(bool finished = true) {
    auto job = MakeJob();
    if (finished) SetFailed(*job, Internal("test"));
    return job;
  }
};

TEST(JobTableTest, AJobServesAnySubsetOfItsOutputs) {
  JobTable table(1000);
  const auto job = Jobs::Make();
  table.Insert("k", {true, false, true}, job);
  EXPECT_EQ(table.Lookup("k", {true, false, true}), job);
  EXPECT_EQ(table.Lookup("k", {true, false, false}), job);
  EXPECT_EQ(table.Lookup("k", {false, true, false}), nullptr);
  EXPECT_EQ(table.Lookup("other", {true, false, true}), nullptr);
}

TEST(JobTableTest, FinishedJobsArePreferred) {
  JobTable table(1000);
  const auto pending = Jobs::Make(false), finished = Jobs::Make();
  table.Insert("k", {true, true}, pending);
  table.Insert("k", {true, true}, finished);
  EXPECT_EQ(table.Lookup("k", {true, false}), finished);
}

TEST(JobTableTest, TheLeastRecentlyUsedFinishedJobGoesFirst) {
  JobTable table(100);
  const auto a = Jobs::Make(), b = Jobs::Make(), c = Jobs::Make(), pending = Jobs::Make(false);
  table.Insert("pending", {}, pending);
  table.Insert("a", {}, a);
  table.SetBytes("a", a.get(), 40);
  table.Insert("b", {}, b);
  table.SetBytes("b", b.get(), 40);
  EXPECT_EQ(table.Lookup("a", {}), a);
  table.Insert("c", {}, c);
  table.SetBytes("c", c.get(), 40);
  EXPECT_EQ(table.Lookup("b", {}), nullptr);
  EXPECT_EQ(table.Lookup("a", {}), a);
  EXPECT_EQ(table.Lookup("c", {}), c);
  EXPECT_EQ(table.Lookup("pending", {}), pending);
  EXPECT_EQ(table.bytes(), 80);
}

TEST(JobTableTest, AJobOverTheLimitIsForgottenAtOnce) {
  JobTable table(100);
  const auto big = Jobs::Make();
  table.Insert("big", {}, big);
  table.SetBytes("big", big.get(), 101);
  EXPECT_EQ(table.Lookup("big", {}), nullptr);
  EXPECT_EQ(table.bytes(), 0);
}

}  // namespace
}  // namespace dendrite::compiler
