#include "csrc/compiler/preloader.h"

#include <gtest/gtest.h>

#include "csrc/compiler/compile_test_util.h"
#include "csrc/testing/temp_folder.h"

namespace dendrite::compiler {
namespace {

class PreloaderTest : public ::testing::Test {
 protected:
  PreloaderTest() : cache_(folder_.path(), int64_t{1} << 30) { identity_.target_name = "embedded"; }

  std::unique_ptr<Preloader> Make(const std::string& program = "train.py") {
    return std::make_unique<Preloader>(TestClient(), &cache_, program, "embedded");
  }
  void Start(Preloader& preloader) {
    preloader.Start([this]() -> Result<const CompilerIdentity*> {
      ++asked_;
      return &identity_;
    });
  }
  // An executable in the cache, under the digest given.
  void Compile(const std::string& digest, int adds) {
    auto executable = TestClient()->Compile(AddChain(adds));
    ASSERT_TRUE(executable.ok()) << executable.status().ToString();
    cache_.Put(Key(digest), *executable->Serialize());
  }
  cache::Key Key(const std::string& digest) const { return MakeNeffKey(digest, identity_); }
  const std::string first_ = std::string(64, 'a'), absent_ = std::string(64, 'b');
  testing::TempFolder folder_;
  SnippetCache cache_;
  CompilerIdentity identity_;
  int asked_ = 0;
};

TEST_F(PreloaderTest, LoadsWhatTheLastRunUsed) {
  Compile(first_, 1);
  auto run = Make();
  Start(*run);
  EXPECT_EQ(asked_, 0) << "there is no list yet";
  run->Note(first_);
  run->Note(absent_);
  run.reset();

  run = Make();
  Start(*run);
  EXPECT_EQ(asked_, 1);
  ASSERT_TRUE(run->WaitUntilLoaded(60));
  const auto loaded = run->Take(Key(first_));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(loaded->executable.defined());
  EXPECT_EQ(loaded->entry.level, "disk");
  EXPECT_FALSE(run->Take(Key(first_)).has_value()) << "it was somebody's";
  EXPECT_FALSE(run->Take(Key(absent_)).has_value());
}

TEST_F(PreloaderTest, ARunThatUsesNothingLeavesAnEmptyList) {
  Compile(first_, 1);
  Make()->Note(first_);
  auto idle = Make();
  Start(*idle);
  EXPECT_EQ(asked_, 1);
  idle.reset();
  auto run = Make();
  Start(*run);
  EXPECT_EQ(asked_, 1) << "nothing is loaded for a program that used nothing";
}

TEST_F(PreloaderTest, AnotherProgramHasAListOfItsOwn) {
  Compile(first_, 1);
  Make()->Note(first_);
  auto other = Make("other.py");
  Start(*other);
  auto nameless = Make("");
  Start(*nameless);
  EXPECT_EQ(asked_, 0);
}

TEST_F(PreloaderTest, AnEntryThatDoesNotLoadIsLeftToTheJobThatNeedsIt) {
  cache_.Put(Key(first_), "no executable");
  Make()->Note(first_);
  auto run = Make();
  Start(*run);
  ASSERT_TRUE(run->WaitUntilLoaded(60));
  EXPECT_FALSE(run->Take(Key(first_)).has_value());
  EXPECT_TRUE(cache_.Lookup(Key(first_)).has_value());
}

}  // namespace
}  // namespace dendrite::compiler
