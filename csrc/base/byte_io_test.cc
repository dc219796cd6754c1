#include "csrc/base/byte_io.h"

#include <gtest/gtest.h>

#include <limits>

namespace dendrite {
namespace {

TEST(ByteIoTest, ReadsBackWhatWasWritten) {
  ByteWriter w;
  w.Put<uint8_t>(7);
  w.Put<int64_t>(-3);
  w.Put<double>(0.5);
  w.PutString("text");
  ByteReader r(w.bytes());
  EXPECT_EQ(r.Get<uint8_t>(), 7);
  EXPECT_EQ(r.Get<int64_t>(), -3);
  EXPECT_EQ(r.Get<double>(), 0.5);
  EXPECT_EQ(r.GetString(), "text");
  EXPECT_TRUE(r.ok());
  EXPECT_TRUE(r.at_end());
}

TEST(ByteIoTest, EveryTruncationFailsAndStaysFailed) {
  ByteWriter w;
  w.Put<uint32_t>(1);
  w.PutString("abc");
  for (size_t size = 0; size < w.bytes().size(); ++size) {
    ByteReader r(std::string_view(w.bytes()).substr(0, size));
    r.Get<uint32_t>();
    r.GetString();
    EXPECT_FALSE(r.ok()) << size;
    EXPECT_EQ(r.Get<uint8_t>(), 0);
  }
}

TEST(ByteIoTest, AnImpossibleCountFails) {
  ByteWriter w;
  w.Put<uint64_t>(std::numeric_limits<uint64_t>::max());
  ByteReader r(w.bytes());
  EXPECT_EQ(r.GetCount(8), 0u);
  EXPECT_FALSE(r.ok());
}

}  // namespace
}  // namespace dendrite
