#include "csrc/cache/disk_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "csrc/base/config.h"
#include "csrc/base/log.h"
#include "csrc/cache/entry_format.h"

namespace dendrite::cache {
namespace {

constexpr int kPutsPerScan = 64;
constexpr int64_t kStaleTempNanos = int64_t{3600} * 1'000'000'000;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int64_t WallNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<std::string> CacheFolderFromEnvironment() {
  DENDRITE_ASSIGN_OR_RETURN(std::string folder, GetString(Knob::kCacheDir));
  if (folder == "off") return std::string();
  if (!folder.empty()) return folder;
  // The XDG specification says that a relative path is to be ignored.
  if (const std::string xdg = FromEnvironment("XDG_CACHE_HOME"); xdg.starts_with('/')) {
    return xdg + "/dendrite";
  }
  if (const std::string home = FromEnvironment("HOME"); home.starts_with('/')) {
    return home + "/.cache/dendrite";
  }
  return FailedPrecondition(
      "no folder for the disk cache: neither DENDRITE_CACHE_DIR nor XDG_CACHE_HOME nor HOME is "
      "set");
}

DiskStore::DiskStore(FileSystem* fs, std::string folder, int64_t limit_bytes)
    : fs_(fs), entries_(folder + "/entries"), locks_(folder + "/locks"), limit_(limit_bytes) {}

Result<std::unique_ptr<DiskStore>> DiskStore::Create(const std::string& folder, int64_t limit_bytes,
                                                     FileSystem* fs) {
  DENDRITE_RETURN_IF_ERROR(fs->MakeDirectories(folder));
  DENDRITE_ASSIGN_OR_RETURN(const FileInfo info, fs->Stat(folder));
  if (info.owner != ::geteuid()) {
    return Status(
        Code::kPermissionDenied,
        "the cache folder " + folder + " belongs to user " + std::to_string(info.owner) +
            ", not to " + std::to_string(::geteuid()) +
            ": its entries are code and would be run; set DENDRITE_CACHE_DIR to a folder of yours");
  }
  if ((info.mode & 077) != 0) {
    DENDRITE_LOG(kInfo) << "making the cache folder " << folder << " private (mode 0700)";
    DENDRITE_RETURN_IF_ERROR(fs->SetMode(folder, 0700));
  }
  std::unique_ptr<DiskStore> store(new DiskStore(fs, folder, limit_bytes));
  DENDRITE_RETURN_IF_ERROR(fs->MakeDirectories(store->entries_));
  DENDRITE_RETURN_IF_ERROR(fs->MakeDirectories(store->locks_));
  return store;
}

std::string DiskStore::FileNameOf(const Key& key) const { return key.hex() + "." + key.kind(); }

std::string DiskStore::PathOf(const Key& key) const { return entries_ + "/" + FileNameOf(key); }

Result<std::optional<Entry>> DiskStore::Lookup(const Key& key) {
  Result<std::string> bytes = fs_->ReadFile(PathOf(key));
  if (!bytes.ok()) {
    MutexLock lock(mutex_);
    ++stats_.misses;
    if (bytes.status().code() == Code::kNotFound) return std::optional<Entry>();
    return bytes.status();
  }
  Result<std::string_view> payload = DecodeEntry(key, *bytes);
  if (!payload.ok()) {
    RemoveCorrupt(key, payload.status().message());
    MutexLock lock(mutex_);
    ++stats_.misses;
    return std::optional<Entry>();
  }
  // Recency only orders evictions: an entry that cannot be touched (read-only folder) is still
  // good.
  (void)fs_->Touch(PathOf(key));
  {
    MutexLock lock(mutex_);
    ++stats_.hits;
  }
  return std::optional<Entry>(Entry{std::string(*payload), name()});
}

Status DiskStore::Put(const Key& key, std::string_view bytes) {
  const std::string entry = EncodeEntry(key, bytes);
  const auto size = static_cast<int64_t>(entry.size());
  if (size > limit_) {
    DENDRITE_LOG(kInfo) << "not cached on disk: an entry of " << size
                        << " bytes is over the limit of " << limit_;
    return Status::Ok();
  }
  DENDRITE_RETURN_IF_ERROR(PublishFile(*fs_, entries_, FileNameOf(key), entry));
  bool scan;
  {
    MutexLock lock(mutex_);
    ++stats_.puts;
    if (estimate_ >= 0) estimate_ += size;
    scan = estimate_ < 0 || estimate_ > limit_ || ++puts_since_scan_ >= kPutsPerScan;
  }
  if (scan) MakeRoom();
  return Status::Ok();
}

Status DiskStore::Discard(const Key& key) {
  RemoveCorrupt(key, "its contents do not load");
  return Status::Ok();
}

StoreStats DiskStore::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

Result<std::unique_ptr<FileLock>> DiskStore::TryLock(const Key& key) {
  return fs_->TryLock(locks_ + "/" + FileNameOf(key));
}

void DiskStore::RemoveCorrupt(const Key& key, const std::string& why) {
  const std::string path = PathOf(key);
  DENDRITE_LOG(kWarning) << "cache entry " << path << " is removed: " << why;
  if (const Status status = fs_->Remove(path); !status.ok()) {
    DENDRITE_LOG(kWarning) << status.message();
  }
  MutexLock lock(mutex_);
  ++stats_.corrupt_entries;
}

// Scans the folder without the lock; two threads that do it at once remove the same oldest files.
void DiskStore::MakeRoom() {
  Result<std::vector<FileInfo>> files = fs_->List(entries_);
  if (!files.ok()) {
    DENDRITE_LOG(kWarning) << files.status().message();
    return;
  }
  std::sort(files->begin(), files->end(),
            [](const FileInfo& a, const FileInfo& b) { return a.mtime_nanos < b.mtime_nanos; });
  const int64_t now = WallNanos();
  int64_t total = 0;
  for (const FileInfo& file : *files) total += file.size;
  // Below the bound with some slack, so that a full cache does not scan at every put.
  const int64_t target = total > limit_ ? limit_ - limit_ / 10 : limit_;
  int64_t evictions = 0;
  for (size_t i = 0; i < files->size(); ++i) {
    const FileInfo& file = (*files)[i];
    const bool temp = file.name.starts_with(kTempPrefix);
    const bool newest = i + 1 == files->size();
    const bool remove = temp ? now - file.mtime_nanos > kStaleTempNanos : total > target && !newest;
    if (!remove || !fs_->Remove(entries_ + "/" + file.name).ok()) continue;
    total -= file.size;
    if (!temp) ++evictions;
  }
  MutexLock lock(mutex_);
  estimate_ = total;
  puts_since_scan_ = 0;
  stats_.evictions += evictions;
}

}  // namespace dendrite::cache
