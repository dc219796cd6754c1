#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "csrc/base/sha256.h"
#include "csrc/pjrt/client.h"

namespace dendrite::pjrt {

Result<std::string> PluginDigest(const std::string& path) {
  using FileIdentity = std::tuple<std::string, int64_t, int64_t, int64_t>;
  // Held while reading: a second caller wants the same answer, not a second read.
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<FileIdentity, std::string>;
  std::lock_guard<std::mutex> lock(mutex);

  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return NotFound("PJRT plugin " + path + " cannot be read: " + std::strerror(errno));
  }
  const FileIdentity identity{path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  if (const auto it = known.find(identity); it != known.end()) return it->second;
  DENDRITE_ASSIGN_OR_RETURN(std::string digest, HexDigestOfFile(path));
  known[identity] = digest;
  return digest;
}

}  // namespace dendrite::pjrt
