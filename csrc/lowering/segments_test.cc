#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(SegmentsTest, TextIsAsReviewed) {
  Golden g("segments");
  g.Add("means by length", Sig("aten.segment_reduce.default")
                               .In({5, 2})
                               .String("mean")
                               .In({3}, DType::kI64)
                               .None()
                               .None()
                               .Int(0)
                               .Bool(false)
                               .None()
                               .Out({3, 2}));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
