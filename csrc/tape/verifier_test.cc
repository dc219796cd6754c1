#include "csrc/tape/verifier.h"

#include <gtest/gtest.h>

#include <functional>

#include "csrc/tape/printer.h"
#include "csrc/tape/tape_maker.h"

namespace dendrite::tape {
namespace {

void Base(TapeMaker& t) {
  const int x = t.Storage(64), y = t.Storage(128);
  t.Record("aten.add.Tensor",
           {t.Read(x, {4, 4}), t.Read(y, {4, 4}, {1, 4}, 8), TapeMaker::LiftedNumber(DType::kF64)},
           {t.Write(y, {4, 4})});
}

Signature& Sig(TapeMaker& t) { return *const_cast<Signature*>(t.tape().records[0].sig); }

TEST(VerifierTest, AcceptsAWellFormedTape) {
  TapeMaker t;
  Base(t);
  EXPECT_TRUE(Verify(t.tape()).ok()) << Verify(t.tape()).ToString();
}

TEST(VerifierTest, RefusesEachKindOfDamage) {
  const std::vector<std::pair<const char*, std::function<void(TapeMaker&)>>> damages = {
      {"storage out of range", [](TapeMaker& t) { t.tape().records[0].operands[0].storage = 7; }},
      {"neither storage nor lifted",
       [](TapeMaker& t) { t.tape().records[0].operands[0].storage = -1; }},
      {"view beyond storage", [](TapeMaker& t) { t.tape().records[0].operands[1].offset = 17; }},
      {"negative offset", [](TapeMaker& t) { t.tape().records[0].operands[1].offset = -1; }},
      {"lengths differ", [](TapeMaker& t) { Sig(t).operands[0].view.strides = {1}; }},
      {"negative stride", [](TapeMaker& t) { Sig(t).operands[0].view.strides = {-4, 1}; }},
      {"no dtype", [](TapeMaker& t) { Sig(t).operands[0].view.dtype = DType::kUndefined; }},
      {"result not written", [](TapeMaker& t) { Sig(t).results = {0, 2}; }},
      {"written but no result", [](TapeMaker& t) { Sig(t).results = {}; }},
      {"result out of range", [](TapeMaker& t) { Sig(t).results = {9}; }},
      {"argument out of range", [](TapeMaker& t) { Sig(t).args[0].ints = {9}; }},
      {"slot out of range", [](TapeMaker& t) { Sig(t).args[2].i = 1; }},
      {"lifted beyond the tape", [](TapeMaker& t) { t.tape().num_lifted = 0; }},
      {"operand without a reference",
       [](TapeMaker& t) { t.tape().records[0].operands.pop_back(); }},
      {"no name", [](TapeMaker& t) { Sig(t).op.clear(); }},
      {"no signature", [](TapeMaker& t) { t.tape().records[0].sig = nullptr; }},
  };
  for (const auto& [name, damage] : damages) {
    TapeMaker t;
    Base(t);
    damage(t);
    const Status status = Verify(t.tape());
    EXPECT_EQ(status.code(), Code::kInternal) << name;
    EXPECT_NE(status.message().find("record 0"), std::string::npos) << name;
  }
}

TEST(PrinterTest, ShowsWhatAPersonNeeds) {
  TapeMaker t;
  t.At("model.py", 3);
  Base(t);
  EXPECT_EQ(
      ToString(t.tape()),
      "s0: 64 bytes\n"
      "s1: 128 bytes\n"
      "0: aten.add.Tensor(s0[4,4], s1[4,4]:1,4 +8, lifted f64 #0) -> s1[4,4]  at model.py:3\n");
}

}  // namespace
}  // namespace dendrite::tape
