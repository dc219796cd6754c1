#include "csrc/compiler/snippet_cache.h"

#include <sys/stat.h>

#include "csrc/base/log.h"
#include "csrc/cache/tiered_store.h"
#include "csrc/pjrt/client.h"

namespace dendrite::compiler {

SnippetCache::SnippetCache(const std::string& folder, int64_t disk_limit_bytes) {
  if (folder.empty()) return;
  Result<std::unique_ptr<cache::DiskStore>> disk =
      cache::DiskStore::Create(folder, disk_limit_bytes);
  if (!disk.ok()) {
    DENDRITE_LOG(kWarning) << "no disk cache: " << disk.status().message();
    return;
  }
  disk_ = std::move(disk).value();
  store_ = std::make_shared<cache::TieredStore>(std::vector<std::shared_ptr<cache::Store>>{disk_});
}

std::optional<cache::Entry> SnippetCache::Lookup(const cache::Key& key) {
  if (!store_) return std::nullopt;
  Result<std::optional<cache::Entry>> entry = store_->Lookup(key);
  if (!entry.ok()) return std::nullopt;  // the tiered store has logged it
  return std::move(entry).value();
}

std::optional<CachedSnippet> SnippetCache::LookupSnippet(const cache::Key& key,
                                                         const tape::Tape& tape) {
  const std::optional<cache::Entry> entry = Lookup(key);
  if (!entry) return std::nullopt;
  Result<CachedSnippet> snippet =
      DecodeSnippet(entry->bytes, tape.storages.size(), static_cast<size_t>(tape.num_lifted),
                    static_cast<size_t>(tape.num_lifted_offsets));
  if (snippet.ok()) return std::move(snippet).value();
  DENDRITE_LOG(kWarning) << "cached snippet " << key.hex() << ": " << snippet.status().message();
  Discard(key);
  return std::nullopt;
}

void SnippetCache::Put(const cache::Key& key, std::string_view bytes) {
  if (store_) (void)store_->Put(key, bytes);  // the tiered store logs what fails
}

void SnippetCache::Discard(const cache::Key& key) {
  if (store_) (void)store_->Discard(key);
}

bool SnippetCache::TryLock(const cache::Key& key, std::unique_ptr<FileLock>* lock) {
  if (!disk_) return true;
  Result<std::unique_ptr<FileLock>> got = disk_->TryLock(key);
  if (!got.ok()) {
    DENDRITE_LOG(kInfo) << "compiling without a lock: " << got.status().message();
    return true;
  }
  *lock = std::move(got).value();
  return *lock != nullptr;
}

Result<std::string> SnippetCache::PluginDigest(const std::string& path) {
  struct stat info;
  if (!store_ || ::stat(path.c_str(), &info) != 0) return pjrt::PluginDigest(path);
  cache::Key key("plugin");
  key.Add("path", path);
  key.Add("inode", static_cast<int64_t>(info.st_ino));
  key.Add("size", info.st_size);
  // The change time moves with every write, even one that puts the modification time back.
  for (const timespec& time : {info.st_mtim, info.st_ctim}) {
    key.Add("seconds", time.tv_sec);
    key.Add("nanos", time.tv_nsec);
  }
  if (const auto entry = Lookup(key)) return entry->bytes;
  DENDRITE_ASSIGN_OR_RETURN(std::string digest, pjrt::PluginDigest(path));
  Put(key, digest);
  return digest;
}

int64_t SnippetCache::corrupt_entries() const {
  return store_ ? store_->stats().corrupt_entries : 0;
}

}  // namespace dendrite::compiler
