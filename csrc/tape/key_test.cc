#include "csrc/tape/key.h"

#include <gtest/gtest.h>

#include <functional>

#include "csrc/tape/tape_maker.h"

namespace dendrite::tape {
namespace {

// y = x + alpha * x on [4, 4]; `change` may spoil it.
std::string KeyOf(const std::function<void(TapeMaker&)>& make, bool host_visible = true) {
  TapeMaker t;
  make(t);
  return CanonicalKey(t.tape(), host_visible);
}

void Base(TapeMaker& t) {
  const int x = t.Storage(64), y = t.Storage(64);
  t.Record("aten.add.Tensor",
           {t.Read(x, {4, 4}), t.Read(x, {4, 4}), TapeMaker::LiftedNumber(DType::kF64)},
           {t.Write(y, {4, 4})});
}

TEST(KeyTest, SameComputationSameKey) { EXPECT_EQ(KeyOf(Base), KeyOf(Base)); }

TEST(KeyTest, SourceLinesAndIdsDoNotMatter) {
  EXPECT_EQ(KeyOf(Base), KeyOf([](TapeMaker& t) {
              t.At("model.py", 12);
              Base(t);
            }));
}

TEST(KeyTest, SizeBeyondTheWindowDoesNotMatterToHosts) {
  const auto larger = [](TapeMaker& t) {
    Base(t);
    t.tape().storages[0].nbytes = 4096;
  };
  EXPECT_EQ(KeyOf(Base), KeyOf(larger));
  EXPECT_NE(KeyOf(Base, false), KeyOf(larger, false));
}

TEST(KeyTest, WhetherAStorageWasEverWrittenMatters) {
  EXPECT_NE(KeyOf(Base, false), KeyOf(
                                    [](TapeMaker& t) {
                                      Base(t);
                                      t.tape().storages[0].initialized = false;
                                    },
                                    false));
}

TEST(KeyTest, PlaceInALargeBucketDoesNotMatter) {
  const auto at = [](int64_t offset) {
    return [offset](TapeMaker& t) {
      const int x = t.Storage(1 << 20);
      t.Record("aten.exp.default", {t.Update(x, {4, 4}, {}, offset)});
    };
  };
  EXPECT_EQ(KeyOf(at(1024)), KeyOf(at(4096)));
  // A different place within 64 bytes is another alignment, so another window.
  EXPECT_NE(KeyOf(at(1024)), KeyOf(at(4097)));
}

TEST(KeyTest, LiftedOffsetsDoNotMatterButWhetherTheyAreLifted) {
  const auto row = [](bool moving, int64_t offset) {
    return [=](TapeMaker& t) {
      const int x = t.Storage(256);
      TapeMaker::Item item = t.Update(x, {4}, {}, offset);
      t.Record("aten.exp.default", {moving ? t.Moving(item) : item});
    };
  };
  EXPECT_EQ(KeyOf(row(true, 0)), KeyOf(row(true, 8)));
  EXPECT_NE(KeyOf(row(true, 8)), KeyOf(row(false, 8)));
}

TEST(KeyTest, StridesOfSizeOneDimensionsDoNotMatter) {
  const auto with_stride = [](int64_t stride) {
    return [stride](TapeMaker& t) {
      const int x = t.Storage(64), y = t.Storage(64);
      t.Record("aten.exp.default", {t.Read(x, {1, 16}, {stride, 1})}, {t.Write(y, {1, 16})});
    };
  };
  EXPECT_EQ(KeyOf(with_stride(16)), KeyOf(with_stride(1)));
}

TEST(KeyTest, EveryIngredientMatters) {
  const std::vector<std::pair<const char*, std::function<void(TapeMaker&)>>> changes = {
      {"operator",
       [](TapeMaker& t) { const_cast<Signature*>(t.tape().records[0].sig)->op += "x"; }},
      {"dtype",
       [](TapeMaker& t) {
         const_cast<Signature*>(t.tape().records[0].sig)->operands[0].view.dtype = DType::kI32;
       }},
      {"strides",
       [](TapeMaker& t) {
         const_cast<Signature*>(t.tape().records[0].sig)->operands[0].view.strides = {1, 4};
       }},
      {"sizes",
       [](TapeMaker& t) {
         const_cast<Signature*>(t.tape().records[0].sig)->operands[0].view.sizes = {2, 4};
       }},
      {"conj",
       [](TapeMaker& t) {
         const_cast<Signature*>(t.tape().records[0].sig)->operands[0].view.conj = true;
       }},
      {"category of a lifted number",
       [](TapeMaker& t) {
         const_cast<Signature*>(t.tape().records[0].sig)->args[2].dtype = DType::kI64;
       }},
      {"structural number",
       [](TapeMaker& t) {
         Arg& arg = const_cast<Signature*>(t.tape().records[0].sig)->args[2];
         arg.kind = Arg::Kind::kFloat;
       }},
      {"who shares a storage", [](TapeMaker& t) { t.tape().records[0].operands[1].storage = 1; }},
      {"offset",
       [](TapeMaker& t) {
         t.tape().storages[0].nbytes = 128;
         t.tape().records[0].operands[0].offset = 4;
       }},
      {"results",
       [](TapeMaker& t) { const_cast<Signature*>(t.tape().records[0].sig)->results = {-1, 2}; }},
      {"form",
       [](TapeMaker& t) {
         t.tape().storages[0].form_dtype = DType::kF32;
         t.tape().storages[0].form_dims = {16};
       }},
      {"another record", [](TapeMaker& t) { t.tape().records.push_back(t.tape().records[0]); }},
  };
  std::vector<std::string> keys = {KeyOf(Base)};
  for (const auto& [name, change] : changes) {
    const std::string key = KeyOf([&change = change](TapeMaker& t) {
      Base(t);
      change(t);
    });
    for (const std::string& other : keys) EXPECT_NE(key, other) << name;
    keys.push_back(key);
  }
}

TEST(KeyTest, NegativeZeroIsAnotherNumber) {
  const auto with = [](double v) {
    return [v](TapeMaker& t) {
      const int x = t.Storage(64);
      t.Record("aten.fill.Scalar", {t.Update(x, {16}), TapeMaker::Float(v)});
    };
  };
  EXPECT_NE(KeyOf(with(0.0)), KeyOf(with(-0.0)));
}

}  // namespace
}  // namespace dendrite::tape
