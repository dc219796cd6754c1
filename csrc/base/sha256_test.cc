#include "csrc/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace dendrite {
namespace {

TEST(Sha256Test, PublishedVectors) {
  EXPECT_EQ(HexDigest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexDigest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexDigest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexDigest(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesGiveTheSameDigestAsTheWhole) {
  std::string data;
  for (int i = 0; i < 300; ++i) data += static_cast<char>(i * 7);
  for (size_t size = 0; size <= data.size(); ++size) {
    const std::string_view whole = std::string_view(data).substr(0, size);
    Sha256 sha;
    for (size_t at = 0; at < size; at += 13) sha.Update(whole.substr(at, 13));
    ASSERT_EQ(ToHex(sha.Finish()), HexDigest(whole)) << size;
  }
}

TEST(Sha256Test, HmacVectorsOfRfc4231) {
  EXPECT_EQ(ToHex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(ToHex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(ToHex(HmacSha256(std::string(131, '\xaa'),
                             "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Sha256Test, MissingFileNamesThePath) {
  const auto digest = HexDigestOfFile("/no/such/file");
  ASSERT_FALSE(digest.ok());
  EXPECT_EQ(digest.status().code(), Code::kNotFound);
  EXPECT_NE(digest.status().message().find("/no/such/file"), std::string::npos);
}

TEST(Sha256Test, ConstantTimeComparison) {
  EXPECT_TRUE(EqualInConstantTime("same", "same"));
  EXPECT_FALSE(EqualInConstantTime("same", "sama"));
  EXPECT_FALSE(EqualInConstantTime("same", "tame"));
  EXPECT_FALSE(EqualInConstantTime("same", "sam"));
}

}  // namespace
}  // namespace dendrite
