// csrc/cache/disk_store.h - a Store in a private folder of the user, shared by all processes on a
// host.
//
// One file per entry, published whole (temporary file, sync, rename) and checked on read. The
// folder has mode 0700 and must belong to us: entries are code that will run. Bounded by bytes; the
// least recently used entries go first, recency being the file's modification time. A lock per key
// lets N processes do a piece of work once: take the lock, look again, work, Put, release; a dead
// holder's lock is free.
#pragma once

#include <memory>
#include <string>

#include "csrc/base/file_system.h"
#include "csrc/base/mutex.h"
#include "csrc/cache/store.h"

namespace dendrite::cache {

// The folder that the configuration names: DENDRITE_CACHE_DIR, else $XDG_CACHE_HOME/dendrite, else
// ~/.cache/dendrite; empty for "off". FAILED_PRECONDITION if there is no home folder either: a
// shared temporary folder is never used, since others could plant entries there.
Result<std::string> CacheFolderFromEnvironment();

class DiskStore final : public Store {
 public:
  // Makes the folder. PERMISSION_DENIED if it belongs to another user.
  static Result<std::unique_ptr<DiskStore>> Create(const std::string& folder, int64_t limit_bytes,
                                                   FileSystem* fs = RealFileSystem());

  const char* name() const override { return "disk"; }
  Result<std::optional<Entry>> Lookup(const Key& key) override;
  Status Put(const Key& key, std::string_view bytes) override;
  Status Discard(const Key& key) override;
  StoreStats stats() const override;

  // Null if somebody else holds it. Never blocks.
  Result<std::unique_ptr<FileLock>> TryLock(const Key& key);
  // Where the entry is or would be.
  std::string PathOf(const Key& key) const;

 private:
  DiskStore(FileSystem* fs, std::string folder, int64_t limit_bytes);
  std::string FileNameOf(const Key& key) const;
  void RemoveCorrupt(const Key& key, const std::string& why);
  void MakeRoom();

  // Constant after construction.
  FileSystem* const fs_;
  const std::string entries_;  // folder of the entries
  const std::string locks_;
  const int64_t limit_;

  mutable Mutex mutex_;
  StoreStats stats_ DENDRITE_GUARDED_BY(mutex_);
  // Bytes that this process believes are there, -1 before the first scan. Other processes write
  // too, so a scan every so many puts corrects it.
  int64_t estimate_ DENDRITE_GUARDED_BY(mutex_) = -1;
  int puts_since_scan_ DENDRITE_GUARDED_BY(mutex_) = 0;
};

}  // namespace dendrite::cache
