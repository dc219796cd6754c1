#include "csrc/cache/entry_format.h"

#include "csrc/base/byte_io.h"
#include "csrc/base/sha256.h"

namespace dendrite::cache {
namespace {

constexpr std::string_view kMagic = "DENDRITE";
constexpr uint8_t kVersion = 1;

std::string_view AsView(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::string EncodeEntry(const Key& key, std::string_view payload) {
  ByteWriter w;
  w.PutRaw(kMagic);
  w.Put(kVersion);
  w.PutString(key.full());
  w.Put<uint64_t>(payload.size());
  w.PutRaw(AsView(Sha256Digest(payload)));
  w.PutRaw(payload);
  return w.Take();
}

Result<std::string_view> DecodeEntry(const Key& key, std::string_view bytes) {
  ByteReader r(bytes);
  if (r.GetRaw(kMagic.size()) != kMagic) return DataLoss("not a cache entry");
  const auto version = r.Get<uint8_t>();
  if (r.ok() && version != kVersion) {
    return DataLoss("format " + std::to_string(version) + ", expected " + std::to_string(kVersion));
  }
  const std::string_view full = r.GetString();
  if (r.ok() && full != key.full()) return DataLoss("it belongs to another key");
  const auto size = r.Get<uint64_t>();
  const std::string_view digest = r.GetRaw(32);
  const std::string_view payload = r.GetRaw(size);
  if (!r.ok()) return DataLoss("truncated");
  if (!r.at_end()) return DataLoss("bytes after its end");
  if (AsView(Sha256Digest(payload)) != digest) return DataLoss("checksum mismatch");
  return payload;
}

}  // namespace dendrite::cache
