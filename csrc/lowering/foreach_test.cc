#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(ForeachTest, TextIsAsReviewed) {
  Golden g("foreach");
  g.Add("one number for all",
        Sig("aten._foreach_mul.Scalar").Ins({{2}, {3}}).Lifted(DType::kF64).Out({2}).Out({3}));
  g.Add("two lists", Sig("aten._foreach_add.List")
                         .Ins({{2}, {3}})
                         .Ins({{2}, {3}})
                         .Lifted(DType::kF64)
                         .Out({2})
                         .Out({3}));
  g.Add("values from a tensor", Sig("aten._foreach_addcmul.Tensor")
                                    .Ins({{2}, {3}})
                                    .Ins({{2}, {3}})
                                    .Ins({{2}, {3}})
                                    .In({2})
                                    .Out({2})
                                    .Out({3}));
  g.Check();
}

// The lowering of one element decides the text of all: equal lists give equal text per element.
TEST(ForeachTest, UnwantedResultsAreSkipped) {
  Sig s = Sig("aten._foreach_sqrt.default").Ins({{2}, {3}}).NoOut().Out({3});
  const std::string text = LowerAlone(s.sig()).value();
  EXPECT_EQ(text.find("stablehlo.sqrt"), text.rfind("stablehlo.sqrt"));
}

TEST(ForeachTest, ListsOfDifferentLengthAreRefused) {
  Sig s = Sig("aten._foreach_mul.List").Ins({{2}, {3}}).Ins({{2}}).Out({2}).Out({3});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace dendrite::lowering
