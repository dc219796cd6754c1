// csrc/base/byte_io.h - little-endian byte strings: what goes to disk and over pipes.
//
// ByteWriter appends; ByteReader reads the same calls back with every bound checked. A reader that
// ran past its end, or met a length that cannot be true, stays failed and returns zeros and empty
// strings, so decoders check ok() once at the end instead of after each field. One thread per
// object.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace dendrite {

static_assert(std::endian::native == std::endian::little, "byte_io.h assumes a little-endian host");

class ByteWriter {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T>
  void Put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }
  // Length (8 bytes), then the bytes.
  void PutString(std::string_view s) {
    Put<uint64_t>(s.size());
    bytes_.append(s);
  }
  void PutRaw(std::string_view s) { bytes_.append(s); }

  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  // `bytes` must outlive the reader and every view it returns.
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
    requires std::is_arithmetic_v<T>
  T Get() {
    T value{};
    const std::string_view raw = GetRaw(sizeof(T));
    if (ok_) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  std::string_view GetString() { return GetRaw(Get<uint64_t>()); }
  std::string_view GetRaw(uint64_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view s = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return s;
  }
  // A count of things that take at least `min_bytes` each; fails if so many cannot follow, so that
  // a damaged count never makes a decoder allocate gigabytes.
  uint64_t GetCount(uint64_t min_bytes) {
    const auto n = Get<uint64_t>();
    if (!ok_ || n > rest_.size() / min_bytes) {
      ok_ = false;
      return 0;
    }
    return n;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  size_t remaining() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace dendrite
