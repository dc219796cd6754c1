#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(ShapeTest, TextIsAsReviewed) {
  Golden g("shape");
  g.Add("cat promotes and skips what is empty",
        Sig("aten.cat.default").Ins({{2, 3}, {0}, {2, 1}}, DType::kBF16).Int(-1).Out({2, 4}));
  g.Add("stack", Sig("aten.stack.default").Ins({{3}, {3}}).Int(1).Out({3, 2}));
  g.Add("repeat", Sig("aten.repeat.default").In({2, 3}).Ints({2, 1, 2}).Out({2, 2, 6}));
  g.Add("roll", Sig("aten.roll.default").In({2, 5}).Ints({-2}).Ints({1}).Out({2, 5}));
  g.Add("split", Sig("aten.split_with_sizes_copy.default")
                     .In({5, 2})
                     .Ints({2, 3})
                     .Int(0)
                     .Out({2, 2})
                     .Out({3, 2}));
  g.Add("pixel shuffle",
        Sig("aten.pixel_shuffle.default").In({1, 8, 2, 3}).Int(2).Out({1, 2, 4, 6}));
  g.Check();
}

TEST(ShapeTest, ViewScatterTextIsAsReviewed) {
  Golden g("view_scatter");
  g.Add("gradient of a slice", Sig("aten.slice_backward.default")
                                   .In({2, 2})
                                   .Ints({2, 5})
                                   .Int(1)
                                   .Int(1)
                                   .Int(5)
                                   .Int(2)
                                   .Out({2, 5}));
  g.Add("gradient of a select that moves", Sig("aten.select_backward.default")
                                               .In({2})
                                               .Ints({2, 5})
                                               .Int(1)
                                               .Lifted(DType::kI64)
                                               .Out({2, 5}));
  g.Add("diagonal",
        Sig("aten.diagonal_scatter.default").In({3, 4}).In({3}).Int(1).Int(0).Int(1).Out({3, 4}));
  g.Add("windows",
        Sig("aten.unfold_backward.default").In({4, 2}).Ints({5}).Int(0).Int(2).Int(1).Out({5}));
  g.Check();
}

TEST(ShapeTest, UnfoldTextIsAsReviewed) {
  Golden g("unfold");
  g.Add("windows as rows",
        Sig("aten.unfold_copy.default").In({5, 2}).Int(0).Int(2).Int(1).Out({4, 2, 2}));
  Sig columns("aten.im2col.default");
  columns.In({1, 2, 3, 3}).Ints({2, 2}).Ints({1, 1}).Ints({0, 0}).Ints({1, 1});
  g.Add("columns", columns.Out({1, 8, 4}));
  Sig image("aten.col2im.default");
  image.In({1, 8, 4}).Ints({3, 3}).Ints({2, 2}).Ints({1, 1}).Ints({0, 0}).Ints({1, 1});
  g.Add("and back", image.Out({1, 2, 3, 3}));
  g.Check();
}

TEST(ShapeTest, CopyBetweenSizesOfElementsIsNotLowered) {
  Sig s = Sig("aten.view_copy.dtype").In({4}).Type(DType::kF16).Out({8}, DType::kF16);
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
