// csrc/cache/entry_format.h - the bytes of a cache entry on disk; docs/formats/cache_entry.md draws
// them.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "csrc/base/status.h"
#include "csrc/cache/key.h"

namespace dendrite::cache {

std::string EncodeEntry(const Key& key, std::string_view payload);

// The payload, a view into `bytes`. DATA_LOSS if the entry is of another format, truncated,
// damaged, or filed under this name for another key; the message says which.
Result<std::string_view> DecodeEntry(const Key& key, std::string_view bytes);

}  // namespace dendrite::cache
