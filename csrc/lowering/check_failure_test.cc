#include "csrc/lowering/check_failure.h"

#include <gtest/gtest.h>

namespace dendrite::lowering {
namespace {

TEST(CheckFailureTest, SaysWhatPyTorchSays) {
  EXPECT_EQ(CheckFailure("aten.embedding.default").message(), "index out of range in self");
  EXPECT_EQ(CheckFailure("aten.embedding.default").code(), Code::kOutOfRange);
  EXPECT_EQ(CheckFailure("aten.floor_divide.default").message(), "ZeroDivisionError");
  EXPECT_EQ(CheckFailure("aten.div.Tensor_mode").code(), Code::kInternal);
  EXPECT_EQ(CheckFailure("aten.binary_cross_entropy.default").message(),
            "all elements of input should be between 0 and 1");
  EXPECT_EQ(CheckFailure("aten.nll_loss_forward.default").message(), "Target is out of bounds.");
}

TEST(CheckFailureTest, IndexingOperatorsDiffer) {
  EXPECT_NE(CheckFailure("aten.index.Tensor").message(),
            CheckFailure("aten.index_select.default").message());
  EXPECT_EQ(CheckFailure("aten.index_put.default").message(),
            CheckFailure("aten.index.Tensor").message());
}

}  // namespace
}  // namespace dendrite::lowering
