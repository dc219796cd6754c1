// Golden texts of small tapes. What they compute is compared with PyTorch in tests/lowering.
#include "csrc/lowering/snippet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/tape/tape_maker.h"

namespace dendrite::lowering {
namespace {

using tape::TapeMaker;

Snippet Lower(TapeMaker& t, std::vector<bool> live, bool host_visible = true) {
  SnippetOptions options;
  options.live = std::move(live);
  options.host_visible = host_visible;
  Result<Snippet> snippet = LowerTape(t.tape(), options);
  EXPECT_TRUE(snippet.ok()) << snippet.status().ToString();
  return snippet.ok() ? *snippet : Snippet{};
}

// The function's signature and operations, without the prefix that all share.
std::string Text(const Snippet& s) {
  std::string out = "\n";
  size_t at = s.stablehlo.find("@main(");
  const size_t end = s.stablehlo.rfind("  }\n}");
  if (at == std::string::npos || end == std::string::npos) return s.stablehlo;
  at += 5;
  while (at < end) {
    const size_t next = s.stablehlo.find('\n', at);
    std::string line = s.stablehlo.substr(at, next - at);
    for (size_t i; (i = line.find("stablehlo.")) != std::string::npos;) line.erase(i, 10);
    out += line.substr(std::min(line.find_first_not_of(' '), line.size())) + "\n";
    at = next + 1;
  }
  return out;
}

TEST(SnippetTest, FreshResultsLandInUnreadDestinations) {
  TapeMaker t;
  const int x = t.Storage(64), y = t.Storage(64);
  t.Record("aten.tanh.default", {t.Read(x, {4, 4})}, {t.Write(y, {4, 4})});
  const Snippet s = Lower(t, {true, true});
  EXPECT_EQ(Text(s), R"hlo(
(%0: tensor<4x4xf32>, %2: tensor<4x4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4x4xf32>) {
%1 = tanh %0 : tensor<4x4xf32>
return %1 : tensor<4x4xf32>
)hlo");
  ASSERT_EQ(s.args.size(), 2u);
  EXPECT_FALSE(s.args[0].donated);
  EXPECT_TRUE(s.args[1].donated);
  EXPECT_FALSE(s.args[1].read);
  ASSERT_EQ(s.outs.size(), 1u);
  EXPECT_EQ(s.outs[0].storage, y);
  EXPECT_EQ(s.outs[0].aliased_arg, 1);
}

TEST(SnippetTest, AnOpaqueStorageNeverWrittenIsNoArgument) {
  for (const bool initialized : {true, false}) {
    TapeMaker t;
    const int x = t.Storage(16), y = t.Storage(64);
    t.Record("aten.tanh.default", {t.Read(x, {4})}, {t.Write(y, {4}, {4})});
    for (tape::StorageInfo& info : t.tape().storages) {
      info.form_dtype = DType::kF32;
      info.form_dims = {info.nbytes / 4};
    }
    t.tape().storages[y].initialized = initialized;
    const Snippet s = Lower(t, {true, true}, /*host_visible=*/false);
    // A column is written: the rest is what was there, or zeros.
    ASSERT_EQ(s.args.size(), initialized ? 2u : 1u);
    EXPECT_EQ(s.args[0].storage, x);
    ASSERT_EQ(s.outs.size(), 1u);
    EXPECT_EQ(s.outs[0].dims, Dims{16});
  }
}

TEST(SnippetTest, InPlaceIsDonated) {
  TapeMaker t;
  const int x = t.Storage(16);
  t.Record("aten.tanh.default", {t.Update(x, {4})});
  const Snippet s = Lower(t, {true});
  EXPECT_EQ(Text(s), R"hlo(
(%0: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32>) {
%1 = tanh %0 : tensor<4xf32>
return %1 : tensor<4xf32>
)hlo");
  ASSERT_EQ(s.args.size(), 1u);
  EXPECT_TRUE(s.args[0].donated && s.args[0].read);
}

TEST(SnippetTest, DeadIntermediateIsNeitherArgumentNorOutput) {
  TapeMaker t;
  const int x = t.Storage(16), dead = t.Storage(16), y = t.Storage(16);
  t.Record("aten.tanh.default", {t.Read(x, {4})}, {t.Write(dead, {4})});
  t.Record("aten.neg.default", {t.Read(dead, {4})}, {t.Write(y, {4})});
  const Snippet s = Lower(t, {true, false, true});
  EXPECT_EQ(Text(s), R"hlo(
(%0: tensor<4xf32>, %3: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32>) {
%1 = tanh %0 : tensor<4xf32>
%2 = negate %1 : tensor<4xf32>
return %2 : tensor<4xf32>
)hlo");
  EXPECT_EQ(s.expected_temp_bytes, 16);
}

TEST(SnippetTest, TransposedReadIsATranspose) {
  TapeMaker t;
  const int x = t.Storage(32), y = t.Storage(32);
  t.Record("aten.neg.default", {t.Read(x, {2, 4}, {1, 2})}, {t.Write(y, {2, 4})});
  EXPECT_EQ(Text(Lower(t, {true, true})), R"hlo(
(%0: tensor<4x2xf32>, %3: tensor<2x4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2x4xf32>) {
%1 = transpose %0, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
%2 = negate %1 : tensor<2x4xf32>
return %2 : tensor<2x4xf32>
)hlo");
}

TEST(SnippetTest, ExpandedReadIsABroadcast) {
  TapeMaker t;
  const int x = t.Storage(8), y = t.Storage(24);
  t.Record("aten.neg.default", {t.Read(x, {3, 2}, {0, 1})}, {t.Write(y, {3, 2})});
  EXPECT_EQ(Text(Lower(t, {true, true})), R"hlo(
(%0: tensor<2xf32>, %4: tensor<3x2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<3x2xf32>) {
%1 = reshape %0 : (tensor<2xf32>) -> tensor<1x2xf32>
%2 = broadcast_in_dim %1, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<3x2xf32>
%3 = negate %2 : tensor<3x2xf32>
return %3 : tensor<3x2xf32>
)hlo");
}

TEST(SnippetTest, PartialWritesShareOneFormAndStayInPlace) {
  TapeMaker t;
  const int x = t.Storage(4 * 8 * 4);
  t.Record("aten.fill.Scalar", {t.Update(x, {4, 2}, {8, 1}, 0), TapeMaker::Float(1)});
  t.Record("aten.fill.Scalar", {t.Update(x, {4, 2}, {8, 1}, 6), TapeMaker::Float(2)});
  EXPECT_EQ(Text(Lower(t, {true})), R"hlo(
(%2: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4x8xf32>) {
%0 = constant dense<1.000000e+00> : tensor<f32>
%1 = broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
%3 = constant dense<0> : tensor<i64>
%4 = constant dense<0> : tensor<i64>
%5 = dynamic_update_slice %2, %1, %3, %4 : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
%6 = constant dense<2.000000e+00> : tensor<f32>
%7 = broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
%8 = constant dense<0> : tensor<i64>
%9 = constant dense<6> : tensor<i64>
%10 = dynamic_update_slice %5, %7, %8, %9 : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
return %10 : tensor<4x8xf32>
)hlo");
}

TEST(SnippetTest, OverlappingReadGathers) {
  TapeMaker t;
  const int x = t.Storage(16), y = t.Storage(24);
  t.Record("aten.neg.default", {t.Read(x, {3, 2}, {1, 1})}, {t.Write(y, {3, 2})});
  EXPECT_EQ(Text(Lower(t, {true, true})), R"hlo(
(%0: tensor<4xf32>, %14: tensor<3x2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<3x2xf32>) {
%1 = constant dense<0> : tensor<3x2xi32>
%2 = constant dense<1> : tensor<3x2xi32>
%3 = iota dim = 0 : tensor<3x2xi32>
%4 = multiply %3, %2 : tensor<3x2xi32>
%5 = add %1, %4 : tensor<3x2xi32>
%6 = constant dense<1> : tensor<3x2xi32>
%7 = iota dim = 1 : tensor<3x2xi32>
%8 = multiply %7, %6 : tensor<3x2xi32>
%9 = add %5, %8 : tensor<3x2xi32>
%10 = reshape %9 : (tensor<3x2xi32>) -> tensor<6x1xi32>
%11 = "gather"(%0, %10) <{dimension_numbers = #gather<offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>, indices_are_sorted = false}> : (tensor<4xf32>, tensor<6x1xi32>) -> tensor<6xf32>
%12 = reshape %11 : (tensor<6xf32>) -> tensor<3x2xf32>
%13 = negate %12 : tensor<3x2xf32>
return %13 : tensor<3x2xf32>
)hlo");
}

TEST(SnippetTest, LiftedOffsetIsDecomposedOverTheForm) {
  TapeMaker t;
  const int x = t.Storage(2 * 8 * 4 * 4);  // [2, 8, 4], one position of the middle dimension
  t.Record("aten.fill.Scalar", {t.Moving(t.Update(x, {2, 1, 4}, {32, 4, 1})), TapeMaker::Float(1)});
  const Snippet s = Lower(t, {true});
  EXPECT_EQ(Text(s), R"hlo(
(%0: tensor<1xi64>, %4: tensor<2x32xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2x32xf32>) {
%1 = constant dense<1.000000e+00> : tensor<f32>
%2 = broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x1x4xf32>
%3 = reshape %0 : (tensor<1xi64>) -> tensor<i64>
%5 = constant dense<32> : tensor<i64>
%6 = remainder %3, %5 : tensor<i64>
%7 = divide %3, %5 : tensor<i64>
%8 = reshape %2 : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
%9 = dynamic_update_slice %4, %8, %7, %6 : (tensor<2x32xf32>, tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x32xf32>
return %9 : tensor<2x32xf32>
)hlo");
  ASSERT_EQ(s.offset_checks.size(), 1u);
  EXPECT_EQ(s.lifted_offsets, (std::vector<int32_t>{0}));
  EXPECT_TRUE(CheckLiftedOffset(s.offset_checks[0], 28));
  EXPECT_FALSE(CheckLiftedOffset(s.offset_checks[0], 29));  // would run over the row
  EXPECT_FALSE(CheckLiftedOffset(s.offset_checks[0], 32));  // would leave the storage
  EXPECT_FALSE(CheckLiftedOffset(s.offset_checks[0], -4));
}

TEST(SnippetTest, LiftedValuesKeepTheirOrderAndOffsetsFollowIntegers) {
  TapeMaker t;
  const int x = t.Storage(64), y = t.Storage(64);
  t.Record("aten.mul.Tensor", {t.Read(x, {16}), TapeMaker::LiftedNumber(DType::kF64)},
           {t.Write(y, {16})});
  t.Record("aten.mul.Tensor", {t.Read(y, {16}), TapeMaker::LiftedNumber(DType::kI64)},
           {t.Write(y, {16})});
  t.Record("aten.add.Tensor",
           {t.Moving(t.Update(x, {4})), t.Read(y, {4}), TapeMaker::LiftedNumber(DType::kF64)});
  const Snippet s = Lower(t, {true, true});
  ASSERT_EQ(s.lifted.size(), 3u);
  EXPECT_EQ(s.lifted[0].kind, SnippetArg::Kind::kLiftedFloat);
  EXPECT_EQ(s.lifted[0].index, 0);
  EXPECT_EQ(s.lifted[1].kind, SnippetArg::Kind::kLiftedInt);
  EXPECT_EQ(s.lifted[1].index, 0);
  EXPECT_EQ(s.lifted[2].kind, SnippetArg::Kind::kLiftedFloat);
  EXPECT_EQ(s.lifted[2].index, 1);
  EXPECT_EQ(s.lifted_offsets, (std::vector<int32_t>{1}));
  ASSERT_GE(s.args.size(), 2u);
  EXPECT_EQ(s.args[0].dims, (Dims{2}));  // floats first
  EXPECT_EQ(s.args[0].dtype, DType::kF64);
  EXPECT_EQ(s.args[1].dims, (Dims{2}));
}

TEST(SnippetTest, OpaqueOutputsAreWholeStoragesInTheirForm) {
  TapeMaker t;
  const int x = t.OpaqueStorage(64, DType::kF32, {2, 8});
  const int fresh = t.Storage(64);
  t.Record("aten.neg.default", {t.Update(x, {4}, {}, 4)});
  t.Record("aten.fill.Scalar", {t.Update(fresh, {4}, {}, 4), TapeMaker::Float(1)});
  const Snippet s = Lower(t, {true, true}, false);
  ASSERT_EQ(s.outs.size(), 2u);
  EXPECT_EQ(s.outs[0].dims, (Dims{2, 8}));
  EXPECT_EQ(s.outs[0].aliased_arg, 0);
  EXPECT_EQ(s.outs[1].dims, (Dims{16}));  // the rest of a storage that was never written is zero
  EXPECT_EQ(s.outs[1].aliased_arg, -1);
  EXPECT_EQ(s.args.size(), 1u);
}

TEST(SnippetTest, WindowOfALargeStorageBeginsAligned) {
  TapeMaker t;
  const int x = t.Storage(1 << 20);
  t.Record("aten.neg.default", {t.Update(x, {16}, {}, 1000)});
  const Snippet s = Lower(t, {true});
  ASSERT_EQ(s.args.size(), 1u);
  EXPECT_EQ(s.args[0].byte_offset, 3968);  // 1000 floats, rounded down to 64 bytes
  EXPECT_EQ(s.args[0].dims, (Dims{24}));
}

TEST(SnippetTest, ResultTakesTheWrittenDType) {
  TapeMaker t;
  const int x = t.Storage(16), y = t.Storage(32);
  TapeMaker::Item out =
      TapeMaker::Operand(y, TapeMaker::ViewOf({4}, {}, DType::kF64), 0, false, true);
  t.Record("aten.neg.default", {t.Read(x, {4})}, {out});
  EXPECT_EQ(Text(Lower(t, {true, true})), R"hlo(
(%0: tensor<4xf32>, %3: tensor<4xf64> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf64>) {
%1 = negate %0 : tensor<4xf32>
%2 = convert %1 : (tensor<4xf32>) -> tensor<4xf64>
return %2 : tensor<4xf64>
)hlo");
}

TEST(SnippetTest, FailedIndexChecksNameTheFirstRecord) {
  TapeMaker t;
  const int x = t.Storage(32), y = t.Storage(32);
  const auto ints = [&](int s, bool write) {
    return TapeMaker::Operand(s, TapeMaker::ViewOf({4}, {}, DType::kI64), 0, !write, write);
  };
  t.Record("aten.neg.default", {ints(x, false)}, {ints(y, true)});
  t.Record("aten.remainder.Tensor", {ints(x, false), ints(y, false)}, {ints(y, true)});
  const Snippet s = Lower(t, {true, true});
  ASSERT_EQ(s.outs.size(), 2u);
  EXPECT_EQ(s.outs[1].kind, SnippetOut::Kind::kIndexError);
  EXPECT_NE(s.stablehlo.find("dense<1> : tensor<i32>"), std::string::npos);
}

TEST(SnippetTest, SourceLinesBecomeLocations) {
  TapeMaker t;
  const int x = t.Storage(16);
  t.At("train.py", 7);
  t.Record("aten.neg.default", {t.Update(x, {4})});
  EXPECT_NE(Lower(t, {true}).stablehlo.find("loc(\"train.py\":7:0)"), std::string::npos);
}

TEST(SnippetTest, RefusesWhatItCannotExpress) {
  TapeMaker unknown;
  const int x = unknown.Storage(16);
  unknown.Record("aten.no_such_operator.default", {unknown.Update(x, {4})});
  EXPECT_EQ(LowerTape(unknown.tape(), {}).status().code(), Code::kUnimplemented);

  TapeMaker overlapping;
  const int y = overlapping.Storage(16);
  overlapping.Record("aten.neg.default", {overlapping.Update(y, {4, 4}, {0, 1})});
  EXPECT_EQ(LowerTape(overlapping.tape(), {}).status().code(), Code::kUnimplemented);
}

TEST(RegistryTest, TryLowerSaysWhy) {
  TapeMaker t;
  const int x = t.Storage(16);
  t.Record("aten.neg.default", {t.Update(x, {4})});
  t.Record("aten.no_such_operator.default", {t.Update(x, {4})});
  EXPECT_TRUE(CanLower(*t.tape().records[0].sig, {}));
  EXPECT_EQ(TryLower(*t.tape().records[1].sig, {}).message(),
            "aten.no_such_operator.default has no lowering");
}

TEST(RegistryTest, OperatorsAreSorted) {
  const std::vector<std::string> ops = RegisteredOps();
  EXPECT_GT(ops.size(), 150u);
  EXPECT_TRUE(std::is_sorted(ops.begin(), ops.end()));
}

}  // namespace
}  // namespace dendrite::lowering
