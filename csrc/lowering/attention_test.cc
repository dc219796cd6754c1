#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig Flash(double dropout, bool causal, int64_t kv_heads) {
  return Sig("aten._scaled_dot_product_flash_attention_for_cpu.default")
      .In({2, 4, 3, 8})
      .In({2, kv_heads, 5, 8})
      .In({2, kv_heads, 5, 8})
      .Float(dropout)
      .Bool(causal)
      .None()
      .None()
      .Out({2, 4, 3, 8})
      .Out({2, 4, 3});
}

TEST(AttentionTest, TextIsAsReviewed) {
  Golden g("attention");
  g.Add("causal", Flash(0, true, 4));
  g.Add("heads share keys", Flash(0, false, 2));
  g.Check();
}

TEST(AttentionTest, DropoutIsRefused) {
  EXPECT_EQ(TryLower(Flash(0.1, true, 4).sig(), {}).code(), Code::kUnimplemented);
}

TEST(AttentionTest, HeadsThatDoNotDivideAreRefused) {
  EXPECT_EQ(TryLower(Flash(0, true, 3).sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
