#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig AdamW(bool with_found_inf) {
  Sig s("aten._fused_adamw.default");
  s.Ins({{3}}).Ins({{3}}).Ins({{3}}).Ins({{3}}).Ins({}).Ins({{}});
  s.Lifted(DType::kF64).Float(0.9).Float(0.999).Float(0.01).Float(1e-8).Bool(false).Bool(false);
  s.None();
  if (with_found_inf) {
    s.In({});
  } else {
    s.None();
  }
  return s.Out({3}).Out({3}).Out({3}).Out({3});
}

TEST(OptimizersTest, TextIsAsReviewed) {
  Golden g("optimizers");
  g.Add("adamw", AdamW(false));
  Sig sgd("aten._fused_sgd.default");
  sgd.Ins({{3}}).Ins({{3}}).Ins({{3}}).Float(0).Float(0.9).Lifted(DType::kF64).Float(0);
  sgd.Bool(true).Bool(false).Bool(false).None().None();
  g.Add("sgd, Nesterov", sgd.Out({3}).NoOut().Out({3}));
  g.Check();
}

TEST(OptimizersTest, FoundInfKeepsEveryOldValue) {
  const std::string without = LowerAlone(AdamW(false).sig()).value();
  const std::string with = LowerAlone(AdamW(true).sig()).value();
  const auto selects = [](const std::string& text) {
    int n = 0;
    for (size_t at = text.find("stablehlo.select"); at != std::string::npos;
         at = text.find("stablehlo.select", at + 1)) {
      ++n;
    }
    return n;
  };
  EXPECT_EQ(selects(with), selects(without) + 4);
}

TEST(OptimizersTest, ListsOfDifferentLengthAreRefused) {
  Sig s("aten._fused_sgd.default");
  s.Ins({{3}}).Ins({}).Ins({}).Float(0).Float(0).Float(0.1).Float(0);
  s.Bool(false).Bool(false).Bool(false).None().None().Out({3});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace dendrite::lowering
