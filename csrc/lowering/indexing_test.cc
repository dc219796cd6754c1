#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;
constexpr DType kI64 = DType::kI64;

TEST(IndexingTest, TextIsAsReviewed) {
  Golden g("indexing");
  g.Add("adjacent indices",
        Sig("aten.index.Tensor").In({5, 6, 7}).Ins({{3}, {2, 1}}, kI64).Out({2, 3, 7}));
  g.Add("accumulating put",
        Sig("aten.index_put.default").In({5, 2}).Ins({{3}}, kI64).In({2}).Bool(true).Out({5, 2}));
  g.Add("one value under a mask", Sig("aten.index_put.default")
                                      .In({3, 2})
                                      .Ins({{3}}, DType::kBool)
                                      .In({})
                                      .Bool(false)
                                      .Out({3, 2}));
  g.Add("rows", Sig("aten.index_select.default").In({5, 2}).Int(0).In({3}, kI64).Out({3, 2}));
  g.Add("scaled add", Sig("aten.index_add.default")
                          .In({5, 2})
                          .Int(0)
                          .In({3}, kI64)
                          .In({3, 2})
                          .Lifted(DType::kF64)
                          .Out({5, 2}));
  g.Check();
}

TEST(IndexingTest, ScatterTextIsAsReviewed) {
  Golden g("scatter");
  g.Add("gather", Sig("aten.gather.default").In({3, 4}).Int(1).In({3, 2}, kI64).Out({3, 2}));
  g.Add("larger source",
        Sig("aten.scatter_add.default").In({3, 4}).Int(1).In({3, 2}, kI64).In({3, 5}).Out({3, 4}));
  g.Add("mean without self", Sig("aten.scatter_reduce.two")
                                 .In({4})
                                 .Int(0)
                                 .In({3}, kI64)
                                 .In({3})
                                 .String("mean")
                                 .Bool(false)
                                 .Out({4}));
  g.Check();
}

TEST(IndexingTest, SelectionByMaskIsNotLowered) {
  Sig s = Sig("aten.index.Tensor").In({5, 2}).Ins({{5}}, DType::kBool).Out({5, 2});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

TEST(IndexingTest, ValuesPerMaskedElementAreNotLowered) {
  Sig s("aten.index_put.default");
  s.In({5, 2}).Ins({{5}}, DType::kBool).In({3, 2}).Bool(false).Out({5, 2});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

TEST(IndexingTest, EveryIndexIsChecked) {
  for (const Sig& s : {Sig("aten.index.Tensor").In({5}).Ins({{2}}, kI64).Out({2}),
                       Sig("aten.gather.default").In({5}).Int(0).In({2}, kI64).Out({2}),
                       Sig("aten.take.default").In({5}).In({2}, kI64).Out({2}),
                       Sig("aten.index_select.default").In({5}).Int(0).In({2}, kI64).Out({2})}) {
    const std::string text = LowerAlone(s.sig()).value();
    EXPECT_NE(text.find("-> (tensor<2xf32>, tensor<i1>)"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace dendrite::lowering
