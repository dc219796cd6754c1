#include "csrc/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace dendrite {
namespace {

Code CodeOfErrno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kResourceExhausted;
    default:
      return Code::kUnavailable;
  }
}

Status FromErrno(const char* what, const std::string& path, int error) {
  return {CodeOfErrno(error),
          std::string("cannot ") + what + " " + path + ": " + std::strerror(error)};
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FromErrno("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Status::Ok();
}

FileInfo InfoFromStat(std::string name, const struct stat& st) {
  FileInfo info;
  info.name = std::move(name);
  info.size = st.st_size;
  info.mtime_nanos = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
  info.is_directory = S_ISDIR(st.st_mode);
  info.owner = st.st_uid;
  info.mode = st.st_mode & 07777;
  return info;
}

class FlockLock final : public FileLock {
 public:
  FlockLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Unlinks while still holding, so that whoever waits on this inode sees that it is gone. The
  // explicit unlock matters if a forked child has inherited the descriptor.
  ~FlockLock() override {
    ::unlink(path_.c_str());
    ::flock(fd_, LOCK_UN);
    ::close(fd_);
  }

 private:
  const int fd_;
  const std::string path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::string> ReadFile(const std::string& path) override {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return FromErrno("open", path, errno);
    struct stat st;
    if (::fstat(fd.get(), &st) != 0) return FromErrno("stat", path, errno);
    if (!S_ISREG(st.st_mode)) return InvalidArgument(path + " is not a regular file");
    std::string bytes(static_cast<size_t>(st.st_size), '\0');
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t n = ::read(fd.get(), bytes.data() + at, bytes.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FromErrno("read", path, errno);
      if (n == 0) break;  // it was cut meanwhile
      at += static_cast<size_t>(n);
    }
    bytes.resize(at);
    return bytes;
  }

  Status WriteNewFile(const std::string& path, std::string_view bytes) override {
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0) return FromErrno("create", path, errno);
    DENDRITE_RETURN_IF_ERROR(WriteAll(fd.get(), bytes, path));
    if (::fsync(fd.get()) != 0) return FromErrno("sync", path, errno);
    if (::close(fd.release()) != 0) return FromErrno("close", path, errno);
    return Status::Ok();
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return FromErrno("rename", from, errno);
    return Status::Ok();
  }

  Status SyncDirectory(const std::string& path) override {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return FromErrno("open", path, errno);
    // Some file systems do not sync folders; the rename is atomic all the same.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) return FromErrno("sync", path, errno);
    return Status::Ok();
  }

  Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return FromErrno("remove", path, errno);
    return Status::Ok();
  }

  Result<FileInfo> Stat(const std::string& path) override {
    struct stat st;
    if (::stat(path.c_str(), &st) != 0) return FromErrno("stat", path, errno);
    return InfoFromStat(path.substr(path.rfind('/') + 1), st);
  }

  Result<std::vector<FileInfo>> List(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (!dir) return FromErrno("list", path, errno);
    std::vector<FileInfo> files;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string name = entry->d_name;
      struct stat st;
      if (name == "." || name == "..") continue;
      if (::fstatat(::dirfd(dir), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone
      if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) files.push_back(InfoFromStat(name, st));
    }
    ::closedir(dir);
    return files;
  }

  Status MakeDirectories(const std::string& path) override {
    for (size_t at = 0; at != std::string::npos;) {
      at = path.find('/', at + 1);
      const std::string prefix = path.substr(0, at);
      if (::mkdir(prefix.c_str(), 0700) != 0 && errno != EEXIST) {
        // Parents that we may not create but that exist on read-only mounts report EROFS or EACCES.
        const int error = errno;
        struct stat st;
        if (::stat(prefix.c_str(), &st) != 0) return FromErrno("make folder", prefix, error);
      }
    }
    struct stat st;
    if (::stat(path.c_str(), &st) != 0) return FromErrno("stat", path, errno);
    if (!S_ISDIR(st.st_mode)) return FailedPrecondition(path + " is not a folder");
    return Status::Ok();
  }

  Status SetMode(const std::string& path, mode_t mode) override {
    if (::chmod(path.c_str(), mode) != 0) return FromErrno("change the mode of", path, errno);
    return Status::Ok();
  }

  Status Touch(const std::string& path) override {
    if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) != 0)
      return FromErrno("touch", path, errno);
    return Status::Ok();
  }

  Result<std::unique_ptr<FileLock>> TryLock(const std::string& path) override {
    for (;;) {
      Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      if (fd.get() < 0) return FromErrno("open", path, errno);
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK) return std::unique_ptr<FileLock>();
        return FromErrno("lock", path, errno);
      }
      // The previous holder may have unlinked the file between our open and our lock: then we hold
      // a file that nobody else can see.
      struct stat held, named;
      if (::fstat(fd.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
          held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
        return std::unique_ptr<FileLock>(new FlockLock(fd.release(), path));
      }
    }
  }
};

}  // namespace

FileSystem* RealFileSystem() {
  static PosixFileSystem* fs = new PosixFileSystem;
  return fs;
}

Status PublishFile(FileSystem& fs, const std::string& folder, const std::string& name,
                   std::string_view bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string temp = folder + "/" + std::string(kTempPrefix) + std::to_string(::getpid()) +
                           "-" + std::to_string(counter.fetch_add(1)) + "-" + name;
  Status status = fs.WriteNewFile(temp, bytes);
  if (status.code() == Code::kAlreadyExists) {  // left by a dead process that had our number
    DENDRITE_RETURN_IF_ERROR(fs.Remove(temp));
    status = fs.WriteNewFile(temp, bytes);
  }
  if (status.ok()) status = fs.Rename(temp, folder + "/" + name);
  if (!status.ok()) {
    (void)fs.Remove(temp);
    return status;
  }
  return fs.SyncDirectory(folder);
}

}  // namespace dendrite
