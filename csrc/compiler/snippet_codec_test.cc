#include "csrc/compiler/snippet_codec.h"

#include <gtest/gtest.h>

namespace dendrite::compiler {
namespace {

using lowering::Snippet;
using lowering::SnippetArg;
using lowering::SnippetOut;
using tape::DType;

Snippet MakeSnippet() {
  Snippet s;
  s.args.push_back({SnippetArg::Kind::kStorage, 1, DType::kF32, {2, 3}, 64, true, false});
  s.args.push_back({SnippetArg::Kind::kLiftedInt, -1, DType::kI64, {2}, 0, false, true});
  s.outs.push_back({SnippetOut::Kind::kStorage, 1, DType::kF32, {2, 3}, 0});
  s.outs.push_back({SnippetOut::Kind::kIndexError, -1, DType::kI32, {}, -1});
  s.lifted = {{SnippetArg::Kind::kLiftedInt, 0}};
  s.lifted_offsets = {1};
  s.offset_checks = {{{4, 5}, {1, 5}}};
  s.custom_calls = {"dendrite.mm"};
  s.expected_temp_bytes = 99;
  return s;
}

TEST(SnippetCodecTest, RoundTrip) {
  const Snippet s = MakeSnippet();
  const auto decoded = DecodeSnippet(EncodeSnippet(s, "digest"), 2, 1, 1);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->stablehlo_digest, "digest");
  // Every field reaches the bytes, so equal bytes mean equal snippets.
  EXPECT_EQ(EncodeSnippet(decoded->snippet, "digest"), EncodeSnippet(s, "digest"));
  EXPECT_EQ(decoded->snippet.args[0].dims, (tape::Dims{2, 3}));
  EXPECT_EQ(decoded->snippet.args[0].byte_offset, 64);
  EXPECT_TRUE(decoded->snippet.args[0].donated);
  EXPECT_FALSE(decoded->snippet.args[0].read);
  EXPECT_EQ(decoded->snippet.outs[0].aliased_arg, 0);
  EXPECT_EQ(decoded->snippet.offset_checks[0].extent, (tape::Dims{1, 5}));
  EXPECT_EQ(decoded->snippet.custom_calls, std::vector<std::string>{"dendrite.mm"});
  EXPECT_EQ(decoded->snippet.expected_temp_bytes, 99);
}

TEST(SnippetCodecTest, EveryTruncationIsRefused) {
  const std::string bytes = EncodeSnippet(MakeSnippet(), "digest");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeSnippet(std::string_view(bytes).substr(0, size), 2, 1, 1).ok()) << size;
  }
  EXPECT_FALSE(DecodeSnippet(bytes + "x", 2, 1, 1).ok());
}

TEST(SnippetCodecTest, DamageNeverCrashesOrAllocatesWithoutBound) {
  const std::string bytes = EncodeSnippet(MakeSnippet(), "digest");
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int value : {0x00, 0x7f, 0xff}) {
      std::string bad = bytes;
      bad[i] = static_cast<char>(value);
      (void)DecodeSnippet(bad, 2, 1, 1);
    }
  }
}

TEST(SnippetCodecTest, IndicesThatLeadNowhereAreRefused) {
  const auto refused = [](const Snippet& s) {
    return !DecodeSnippet(EncodeSnippet(s, "d"), 2, 1, 1).ok();
  };
  Snippet s = MakeSnippet();
  EXPECT_FALSE(refused(s));
  s.args[0].storage = 2;
  EXPECT_TRUE(refused(s));
  s = MakeSnippet();
  s.outs[0].aliased_arg = 2;
  EXPECT_TRUE(refused(s));
  s = MakeSnippet();
  s.lifted.clear();
  EXPECT_TRUE(refused(s));
  s = MakeSnippet();
  s.args[0].dims[0] = -1;
  EXPECT_TRUE(refused(s));
}

}  // namespace
}  // namespace dendrite::compiler
