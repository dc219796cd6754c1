// csrc/base/sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104).
//
// Cache keys, payload checksums and plugin digests are made with it. Uses the CPU's SHA
// instructions where there are any. A Sha256 belongs to one thread; the free functions may be
// called from any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "csrc/base/status.h"

namespace dendrite {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void Update(const void* data, size_t size);
  void Update(std::string_view s) { Update(s.data(), s.size()); }
  // The digest of everything given so far. REQUIRES: called once, nothing is added after.
  Digest Finish();

 private:
  std::array<uint32_t, 8> state_;
  uint64_t total_ = 0;  // bytes seen
  std::array<uint8_t, 64> block_;
  size_t fill_ = 0;  // bytes of block_ in use
};

Digest Sha256Digest(std::string_view data);
// Lower-case hex, 64 characters.
std::string HexDigest(std::string_view data);
std::string ToHex(const Digest& digest);
// Digest of a file's contents, read in pieces; errors name the path.
Result<std::string> HexDigestOfFile(const std::string& path);

Digest HmacSha256(std::string_view key, std::string_view data);
// Takes the same time wherever the first difference is.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace dendrite
