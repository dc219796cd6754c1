// csrc/testing/shim_plugin/shim_pjrt_plugin.cc - a real plugin, whose compiles are counted and
// slowed.
//
// Benchmarks load it in place of the plugin, in every process of a run:
//   DENDRITE_SHIM_TARGET            path of the real plugin; required
//   DENDRITE_SHIM_COMPILE_DELAY_MS  added to each compile
//   DENDRITE_SHIM_LOG               file to which each compile appends a line: SHA-256 of the
//   program
// A line is one write to a file opened for appending, so processes may share the file. Everything
// but PJRT_Client_Compile is the real plugin's own entry. Any thread.
#include <dlfcn.h>
#include <fcntl.h>
#include <pjrt_c_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "csrc/base/sha256.h"

namespace {

PJRT_Client_Compile* real_compile = nullptr;

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  if (const char* path = std::getenv("DENDRITE_SHIM_LOG"); path != nullptr) {
    const std::string line =
        dendrite::HexDigest({args->program->code, args->program->code_size}) + "\n";
    const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::fprintf(stderr, "shim plugin: cannot write %s: %s\n", path, std::strerror(errno));
    }
    if (fd >= 0) ::close(fd);
  }
  if (const char* delay = std::getenv("DENDRITE_SHIM_COMPILE_DELAY_MS"); delay != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atol(delay)));
  }
  return real_compile(args);
}

// A copy of the real table, at its own size, which may be larger than our header's. Null on
// failure.
const PJRT_Api* WrapTarget() {
  const char* path = std::getenv("DENDRITE_SHIM_TARGET");
  if (path == nullptr) {
    std::fprintf(stderr, "shim plugin: DENDRITE_SHIM_TARGET is not set\n");
    return nullptr;
  }
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    std::fprintf(stderr, "shim plugin: %s\n", ::dlerror());
    return nullptr;
  }
  auto* get_api = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(library, "GetPjrtApi"));
  const PJRT_Api* real = get_api == nullptr ? nullptr : get_api();
  constexpr size_t kNeeded = offsetof(PJRT_Api, PJRT_Client_Compile) + sizeof(void*);
  if (real == nullptr || real->struct_size < kNeeded) {
    std::fprintf(stderr, "shim plugin: %s is not a PJRT plugin\n", path);
    return nullptr;
  }
  // Kept for the life of the process, as the table of a plugin is.
  auto* copy = static_cast<PJRT_Api*>(std::malloc(real->struct_size));
  std::memcpy(copy, real, real->struct_size);
  real_compile = copy->PJRT_Client_Compile;
  copy->PJRT_Client_Compile = Compile;
  return copy;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* const api = WrapTarget();
  return api;
}
