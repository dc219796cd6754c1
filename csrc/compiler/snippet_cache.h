// csrc/compiler/snippet_cache.h - the compile service's view of the stores: snippets and
// executables by key.
//
// Never fails: trouble is logged and is a miss, and without a usable folder everything is one.
// Damaged entries are discarded and counted. Thread safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "csrc/base/file_system.h"
#include "csrc/cache/disk_store.h"
#include "csrc/cache/key.h"
#include "csrc/cache/store.h"
#include "csrc/compiler/snippet_codec.h"
#include "csrc/tape/record.h"

namespace dendrite::compiler {

class SnippetCache {
 public:
  // Empty folder: no cache.
  SnippetCache(const std::string& folder, int64_t disk_limit_bytes);

  bool enabled() const { return store_ != nullptr; }
  std::optional<CachedSnippet> LookupSnippet(const cache::Key& key, const tape::Tape& tape);
  std::optional<cache::Entry> Lookup(const cache::Key& key);
  void Put(const cache::Key& key, std::string_view bytes);
  // An executable that the plugin refuses.
  void Discard(const cache::Key& key);
  // False if another process (or service) holds the key's lock. Where locks do not work, true with
  // no lock: then two processes may compile the same, which is waste but not wrong.
  bool TryLock(const cache::Key& key, std::unique_ptr<FileLock>* lock);
  // SHA-256 of the plugin's file. Reading some 250 MB takes a fraction of a second, which a warm
  // start would feel, so the digest itself is cached by the file's identity.
  Result<std::string> PluginDigest(const std::string& path);
  int64_t corrupt_entries() const;

 private:
  std::shared_ptr<cache::DiskStore> disk_;
  std::shared_ptr<cache::Store> store_;  // all levels; null: none
};

}  // namespace dendrite::compiler
