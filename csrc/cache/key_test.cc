#include "csrc/cache/key.h"

#include <gtest/gtest.h>

namespace dendrite::cache {
namespace {

Key Make(std::string_view a, std::string_view b) {
  Key key("test");
  key.Add("a", a);
  key.Add("b", b);
  return key;
}

TEST(KeyTest, EqualIngredientsGiveEqualKeys) {
  EXPECT_EQ(Make("x", "y").full(), Make("x", "y").full());
  EXPECT_EQ(Make("x", "y").hex(), Make("x", "y").hex());
  EXPECT_EQ(Make("x", "y").hex().size(), 64u);
}

TEST(KeyTest, EachIngredientCounts) {
  const Key key = Make("x", "y");
  EXPECT_NE(key.hex(), Make("X", "y").hex());
  EXPECT_NE(key.hex(), Make("x", "Y").hex());
  Key more = key;
  more.Add("c", "");
  EXPECT_NE(key.hex(), more.hex());
  EXPECT_NE(Key("one").hex(), Key("two").hex());
}

TEST(KeyTest, BordersBetweenIngredientsCount) {
  EXPECT_NE(Make("xy", "").full(), Make("x", "y").full());
  EXPECT_NE(Make("", "xy").full(), Make("x", "y").full());
  // Written one after the other, names and values would be "a1b2b3" both times.
  EXPECT_NE(Make("1b2", "3").full(), Make("1", "2b3").full());
}

TEST(KeyTest, ExplainDiffersWhereTheIngredientDoes) {
  const std::string one = Make("x", "y").Explain(), two = Make("x", "z").Explain();
  EXPECT_EQ(one.substr(0, one.find("; b")), two.substr(0, two.find("; b")));
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace dendrite::cache
