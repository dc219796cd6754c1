#include "csrc/compiler/compile_keys.h"

#include <gtest/gtest.h>

#include <fstream>

#include "csrc/compiler/compile_test_util.h"
#include "csrc/stablehlo/builder.h"
#include "csrc/testing/temp_folder.h"

namespace dendrite::compiler {
namespace {

TEST(CompileKeysTest, OnlyWrittenStoragesThatLiveAreOutputs) {
  const TestTape tape(2);  // storage 0 is read, 1 and 2 are written
  EXPECT_EQ(OutputMask(*tape.get(), {true, false, true}), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(OutputMask(*tape.get(), {}), (std::vector<bool>{false, false, false}));
}

TEST(CompileKeysTest, JobKeyDependsOnTapeAndTraits) {
  const TestTape two(2), same(2), three(3);
  lowering::SnippetOptions options;
  const std::string key = JobKey(*two.get(), options);
  EXPECT_EQ(key, JobKey(*same.get(), options));
  EXPECT_NE(key, JobKey(*three.get(), options));
  lowering::SnippetOptions other = options;
  other.host_visible = false;
  EXPECT_NE(key, JobKey(*two.get(), other));
  other = options;
  other.traits.kernels_by_name = true;
  EXPECT_NE(key, JobKey(*two.get(), other));
  other = options;
  other.traits.has_f64 = false;
  EXPECT_NE(key, JobKey(*two.get(), other));
  other = options;
  other.traits.num_threads = 7;
  EXPECT_NE(key, JobKey(*two.get(), other));
}

TEST(CompileKeysTest, SnippetKeyDependsOnOutputsAndTarget) {
  const std::string key = MakeSnippetKey("job", {true, false}, "embedded").full();
  EXPECT_EQ(key, MakeSnippetKey("job", {true, false}, "embedded").full());
  EXPECT_NE(key, MakeSnippetKey("job", {true, true}, "embedded").full());
  EXPECT_NE(key, MakeSnippetKey("job", {true, false}, "opaque").full());
  EXPECT_NE(key, MakeSnippetKey("jab", {true, false}, "embedded").full());
  EXPECT_NE(key.find(LoweringDigest()), std::string::npos);
}

TEST(CompileKeysTest, NeffKeyDependsOnAllThatDecidesTheCode) {
  const CompilerIdentity base{"embedded", "digest", "0.106", "options", "avx2", 2};
  const std::string key = MakeNeffKey("text", base).full();
  EXPECT_EQ(key, MakeNeffKey("text", base).full());
  EXPECT_NE(key, MakeNeffKey("other", base).full());
  std::vector<CompilerIdentity> others(6, base);
  others[0].target_name = "x";
  others[1].plugin_digest = "x";
  others[2].plugin_api = "x";
  others[3].compile_options = "x";
  others[4].cpu_features = "x";
  others[5].num_threads = 3;
  for (const auto& other : others) EXPECT_NE(key, MakeNeffKey("text", other).full());
}

TEST(CompileKeysTest, SourceLinesAreNoPartOfTheProgram) {
  const auto program = [](const std::string& file, int line, const char* op) {
    stablehlo::Builder b;
    const stablehlo::Value x = b.Argument(tape::DType::kF32, {2});
    b.SetLocation(file, line);
    return *b.Finish({b.Unary(op, x)});
  };
  const std::string here = program("model.py", 1, "exponential");
  EXPECT_NE(here, program("other.py", 20, "exponential"));
  EXPECT_EQ(ProgramDigest(here), ProgramDigest(program("other.py", 20, "exponential")));
  EXPECT_EQ(ProgramDigest(here), ProgramDigest(program("", 0, "exponential")));
  EXPECT_EQ(ProgramDigest(here), ProgramDigest(program("odd \" loc(\"name", 3, "exponential")));
  EXPECT_NE(ProgramDigest(here), ProgramDigest(program("model.py", 1, "cosine")));
}

TEST(CompileKeysTest, AProgramIsItsScriptOrModuleWhateverItsArguments) {
  testing::TempFolder folder;
  const std::string script = folder.path() + "/train.py";
  std::ofstream(script) << "pass";
  EXPECT_EQ(ProgramName({"python", "-u", script, "--lr", "1"}), script);
  EXPECT_EQ(ProgramName({"python", script}), script);
  EXPECT_EQ(ProgramName({"python", "-m", "demo.train", script}), "demo.train");
  EXPECT_NE(ProgramName({"python", "-c", "a", script}), ProgramName({"python", "-c", "b", script}));
  EXPECT_NE(ProgramName({"python", "absent.py"}), "");
  EXPECT_NE(ProgramName(ProcessCommandLine()), "");
}

TEST(CompileKeysTest, HostFactsAreKnown) {
  EXPECT_EQ(LoweringDigest().size(), 64u);
  EXPECT_GT(CpuFeatures().size(), 10u);
  EXPECT_GE(NumUsableCores(), 1);
}

}  // namespace
}  // namespace dendrite::compiler
