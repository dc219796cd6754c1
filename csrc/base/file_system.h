// csrc/base/file_system.h - the file operations that the caches need, behind a seam.
//
// The real one is RealFileSystem(); tests wrap it to fail or tear writes on purpose. Paths are
// absolute or relative to the working directory. Every error names the path. Thread safe.
//
// PublishFile makes a whole file appear under its final name or not at all: temporary name in the
// same folder, write, sync, rename. A reader never sees half of it, whatever dies when.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"

namespace dendrite {

struct FileInfo {
  std::string name;  // within its folder
  int64_t size = 0;
  int64_t mtime_nanos = 0;
  bool is_directory = false;
  uid_t owner = 0;
  mode_t mode = 0;  // permission bits
};

// An exclusive lock on a file, between processes and within one. The kernel releases it when its
// holder dies, so a waiter takes over by just trying again. Destruction releases it.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // NOT_FOUND if there is no such file.
  virtual Result<std::string> ReadFile(const std::string& path) = 0;
  // Creates `path` (ALREADY_EXISTS if it is there), mode 0600, writes, and syncs it to the disk.
  virtual Status WriteNewFile(const std::string& path, std::string_view bytes) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  // Removing what is not there is fine.
  virtual Status Remove(const std::string& path) = 0;
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
  // Regular files and folders in `path`, in no order.
  virtual Result<std::vector<FileInfo>> List(const std::string& path) = 0;
  // Makes the folder and its missing parents with mode 0700.
  virtual Status MakeDirectories(const std::string& path) = 0;
  virtual Status SetMode(const std::string& path, mode_t mode) = 0;
  // Sets the modification time to now.
  virtual Status Touch(const std::string& path) = 0;
  // Creates the lock file if needed; null if another holder has it. Never blocks. The file is
  // removed when the lock is released.
  virtual Result<std::unique_ptr<FileLock>> TryLock(const std::string& path) = 0;
};

// Lives forever.
FileSystem* RealFileSystem();

// Prefix of temporary names; a file so named that is old was left by a crash.
inline constexpr std::string_view kTempPrefix = ".tmp-";

Status PublishFile(FileSystem& fs, const std::string& folder, const std::string& name,
                   std::string_view bytes);

}  // namespace dendrite
