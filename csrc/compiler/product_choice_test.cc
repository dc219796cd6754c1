#include "csrc/compiler/product_choice.h"

#include <gtest/gtest.h>

namespace dendrite::compiler {
namespace {

TEST(ProductChoiceTest, ShapesAreRoundedToFew) {
  const lowering::ProductShape ragged{1, 1000, 500, 130, true, false};
  EXPECT_EQ(Rounded(ragged), (lowering::ProductShape{1, 1024, 512, 192, true, false}));
  EXPECT_EQ(Rounded(Rounded(ragged)), Rounded(ragged));
  EXPECT_EQ(Rounded({1, 1, 1, 1, false, false}),
            (lowering::ProductShape{1, 1, 1, 1, false, false}));
}

TEST(ProductChoiceTest, LargeShapesAreMadeSmallWithoutLosingTheirForm) {
  const auto rounded = Rounded({1, 1 << 20, 4096, 64, false, true});
  EXPECT_LE(rounded.m * rounded.n * rounded.k, int64_t{1} << 28);
  EXPECT_EQ(rounded.k, 64);
  EXPECT_TRUE(rounded.trans_b);
  EXPECT_FALSE(rounded.trans_a);
}

}  // namespace
}  // namespace dendrite::compiler
