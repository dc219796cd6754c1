#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"
#include "csrc/lowering/recurrent_kernels.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

// Two steps of two sequences, three inputs, one hidden unit.
Sig Lstm(bool keep) {
  return Sig("dendrite.recurrent_layer.default")
      .String("lstm")
      .In({2, 2, 3})
      .In({2, 1})
      .In({2, 1})
      .In({4, 3})
      .In({4, 1})
      .In({4})
      .In({4})
      .Ints({})
      .Bool(false)
      .Bool(keep)
      .Out({2, 2, 1})
      .Out({2, 1})
      .Out({2, 1})
      .Out(keep ? Dims{2, 2, 5} : Dims{0});
}

// Packed: two rows, then one; from the last step to the first.
Sig PackedGruGradient() {
  return Sig("dendrite.recurrent_layer_backward.default")
      .String("gru")
      .In({3, 1})
      .None()
      .None()
      .In({3, 2})
      .In({2, 1})
      .None()
      .In({3, 2})
      .In({3, 1})
      .In({3, 1})
      .In({3, 4})
      .Ints({2, 1})
      .Bool(true)
      .Mask({1, 1, 1})
      .Out({3, 2})
      .Out({2, 1})
      .Out({0})
      .Out({3, 2})
      .Out({3, 1})
      .Out({3})
      .Out({3});
}

Sig ReluGradient() {  // of the states alone
  return Sig("dendrite.recurrent_layer_backward.default")
      .String("rnn_relu")
      .None()
      .In({2, 1})
      .None()
      .In({2, 2, 3})
      .In({2, 1})
      .None()
      .In({1, 3})
      .In({1, 1})
      .In({2, 2, 1})
      .In({0})
      .Ints({})
      .Bool(false)
      .Mask({0, 0, 0})
      .Out({0})
      .Out({2, 1})
      .Out({0})
      .Out({0})
      .Out({0})
      .Out({0})
      .Out({0});
}

TEST(RecurrentLayerTest, TextIsAsReviewed) {
  Golden g("recurrent_layer");
  g.Add("lstm", Lstm(true));
  g.Add("lstm that keeps nothing", Lstm(false));
  g.Add("packed gru gradient, backwards", PackedGruGradient());
  g.Add("relu gradient of the states", ReluGradient());
  LoweringTraits kernels;
  kernels.kernels_by_name = true;
  g.Add("lstm by name", Lstm(true), kernels);
  g.Add("packed gru gradient by name", PackedGruGradient(), kernels);
  g.Check();
}

TEST(RecurrentLayerTest, OtherDtypesAreNotTheKernels) {
  LoweringTraits kernels;
  kernels.kernels_by_name = true;
  Sig s = Sig("dendrite.recurrent_layer.default")
              .String("rnn_tanh")
              .In({2, 2, 3}, DType::kF64)
              .In({2, 1}, DType::kF64)
              .None()
              .In({1, 3}, DType::kF64)
              .In({1, 1}, DType::kF64)
              .None()
              .None()
              .Ints({})
              .Bool(false)
              .Bool(true)
              .Out({2, 2, 1}, DType::kF64)
              .Out({2, 1}, DType::kF64)
              .Out({0}, DType::kF64)
              .Out({0}, DType::kF64);
  const auto text = LowerAlone(s.sig(), kernels);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(text->find("custom_call"), std::string::npos);
  EXPECT_NE(text->find("stablehlo.while"), std::string::npos);
}

TEST(RecurrentLayerTest, AnUnknownKindIsRefused) {
  Sig s("dendrite.recurrent_layer.default");
  s.String("peephole").In({2, 2, 3}).Out({2, 2, 1});
  EXPECT_EQ(LowerAlone(s.sig()).status().code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
