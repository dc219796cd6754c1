#include "csrc/cache/key.h"

#include "csrc/base/byte_io.h"
#include "csrc/base/sha256.h"

namespace dendrite::cache {

Key::Key(std::string_view kind) : kind_(kind) {
  ByteWriter w;
  w.PutString(kind);
  full_ = w.Take();
  hex_ = HexDigest(full_);
}

void Key::Add(std::string_view name, std::string_view value) {
  ByteWriter w;
  w.PutString(name);
  w.PutString(value);
  full_ += w.bytes();
  digests_.emplace_back(name, HexDigest(value).substr(0, 12));
  hex_ = HexDigest(full_);
}

void Key::Add(std::string_view name, int64_t value) { Add(name, std::to_string(value)); }

std::string Key::Explain() const {
  std::string out = "kind " + kind_;
  for (const auto& [name, digest] : digests_) out += "; " + name + " " + digest;
  return out;
}

Key Key::WithHexForTest(Key key, std::string hex) {
  key.hex_ = std::move(hex);
  return key;
}

}  // namespace dendrite::cache
