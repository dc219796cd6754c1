// csrc/cache/fault_file_system_test_util.h - a FileSystem that fails or tears writes on purpose.
//
// Forwards to the real one but for the faults that a test sets. Not thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "csrc/base/file_system.h"

namespace dendrite::cache {

class FaultFileSystem final : public FileSystem {
 public:
  enum class Fault { kNone, kWriteFails, kTornWrite, kRenameFails, kReadFails, kListFails };
  Fault fault = Fault::kNone;

  Result<std::string> ReadFile(const std::string& path) override {
    if (fault == Fault::kReadFails) return Broken("read", path);
    return real_->ReadFile(path);
  }
  // A torn write loses the second half and reports success, as a disk that lies about its sync
  // does.
  Status WriteNewFile(const std::string& path, std::string_view bytes) override {
    if (fault == Fault::kWriteFails) return Broken("write", path);
    if (fault == Fault::kTornWrite) bytes = bytes.substr(0, bytes.size() / 2);
    return real_->WriteNewFile(path, bytes);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    if (fault == Fault::kRenameFails) return Broken("rename", from);
    return real_->Rename(from, to);
  }
  Status SyncDirectory(const std::string& path) override { return real_->SyncDirectory(path); }
  Status Remove(const std::string& path) override { return real_->Remove(path); }
  Result<FileInfo> Stat(const std::string& path) override {
    Result<FileInfo> info = real_->Stat(path);
    if (info.ok() && foreign_owner) info->owner += 1;
    return info;
  }
  Result<std::vector<FileInfo>> List(const std::string& path) override {
    if (fault == Fault::kListFails) return Broken("list", path);
    return real_->List(path);
  }
  Status MakeDirectories(const std::string& path) override { return real_->MakeDirectories(path); }
  Status SetMode(const std::string& path, mode_t mode) override {
    return real_->SetMode(path, mode);
  }
  Status Touch(const std::string& path) override { return real_->Touch(path); }
  Result<std::unique_ptr<FileLock>> TryLock(const std::string& path) override {
    return real_->TryLock(path);
  }

  bool foreign_owner = false;  // every file seems to belong to somebody else

 private:
  static Status Broken(const char* what, const std::string& path) {
    return Unavailable(std::string("injected: cannot ") + what + " " + path);
  }
  FileSystem* const real_ = RealFileSystem();
};

}  // namespace dendrite::cache
