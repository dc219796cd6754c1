// csrc/pjrt/client.h - RAII over the PJRT C API: the only caller of a plugin's raw entries.
//
// Plugin (a loaded shared library, never unloaded) -> Client (one per process and plugin) ->
// Executable, Buffer, Event. Every handle keeps its Client alive. All classes are
// thread-compatible; Client's methods are thread safe, as PJRT's are. No PJRT type appears in this
// header, so that only csrc/pjrt/*.cc include pjrt_c_api.h. Errors carry the plugin's message and
// code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"

namespace dendrite::pjrt {

// Values of PJRT_Buffer_Type (pjrt_c_api.h); callers map their own element types to these.
using ElementType = int;

class Client;

class Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  bool defined() const { return raw_ != nullptr; }
  Status Await();  // Blocks. OK at once if not defined.
  bool IsReady();

 private:
  friend class Client;
  friend class Buffer;
  friend class Executable;
  std::shared_ptr<const Client> client_;
  void* raw_ = nullptr;
};

class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  bool defined() const { return raw_ != nullptr; }
  // Copies the whole buffer, row-major, to `dst` (REQUIRES: size_bytes of room); blocks until done.
  Status ToHost(void* dst, size_t size_bytes);
  // Address of the buffer's memory; only host-visible targets.
  Result<void*> UnsafePointer();
  Result<size_t> OnDeviceSize();

 private:
  friend class Client;
  friend class Executable;
  std::shared_ptr<const Client> client_;
  void* raw_ = nullptr;
};

enum class HostBuffer {
  kCopy,               // the source may change once the call returns
  kImmutableZeroCopy,  // aliases host memory; must outlive the buffer; the device does not write it
  kMutableZeroCopy,    // aliases host memory, and a donating execution may write it
};

struct MemoryStats {
  int64_t temp_bytes = 0, argument_bytes = 0, output_bytes = 0, alias_bytes = 0, code_bytes = 0;
};

class Executable {
 public:
  Executable() = default;
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  bool defined() const { return raw_ != nullptr; }
  size_t num_outputs() const { return num_outputs_; }
  // Runs with `args` (donated ones are consumed by the plugin, their Buffers stay to be destroyed).
  // outputs is filled with num_outputs() buffers. The event fires when the execution is complete.
  // `non_donatable[i]` keeps argument i even if the program marks it as aliased. `device` is where
  // the arguments are; other than 0 needs an executable compiled with kPortableCompileOptions.
  Result<Event> Execute(const std::vector<Buffer*>& args, std::vector<Buffer>* outputs,
                        const std::vector<int64_t>& non_donatable = {}, int device = 0) const;
  Result<std::string> Serialize() const;
  Result<MemoryStats> GetMemoryStats() const;  // UNIMPLEMENTED if the plugin has none

 private:
  friend class Client;
  Status Init(std::shared_ptr<const Client> client, void* raw);  // takes `raw` over, also on error
  std::shared_ptr<const Client> client_;
  void* raw_ = nullptr;
  size_t num_outputs_ = 0;
};

// CompileOptionsProto { executable_build_options { num_replicas: 1 num_partitions: 1 }
// compile_portable_executable: true }: an executable that runs on any device of the client, one at
// a time, so that compiled code does not depend on the device's number.
inline constexpr std::string_view kPortableCompileOptions("\x1a\x04\x20\x01\x28\x01\x20\x01", 8);

struct PluginInfo {
  std::string path;
  std::string platform_name;  // "cpu"
  std::string platform_version;
  int api_major = 0, api_minor = 0;
  int num_devices = 0;
  bool has_ffi = false;
  bool has_pointers = false;   // Buffer::UnsafePointer exists
  bool can_serialize = false;  // Executable::Serialize and Client::Deserialize exist
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  // Loads the plugin at `path` (each path once per process) and makes a client. Errors are one
  // clear sentence: file missing, not a PJRT plugin (no GetPjrtApi), API too old and which call is
  // missing, or the plugin's own message. `num_devices` <= 0: the plugin's default.
  static Result<std::shared_ptr<Client>> Create(const std::string& path, int num_devices = 0);
  ~Client();

  const PluginInfo& info() const { return info_; }

  // Compiles StableHLO text. compile_options: serialised CompileOptionsProto; empty: one replica,
  // one partition.
  Result<Executable> Compile(std::string_view stablehlo,
                             std::string_view compile_options = {}) const;
  Result<Executable> Deserialize(std::string_view bytes) const;
  Result<Buffer> FromHost(const void* data, ElementType type, const std::vector<int64_t>& dims,
                          HostBuffer semantics, int device = 0) const;
  // Registers an XLA FFI handler (XLA_FFI_Handler*) under `name` for the platform "Host", for all
  // clients of the plugin; the same handler twice is no error. The handler is called once with a
  // metadata extension and must answer with the lower of its own and the frame's API version: a
  // plugin drops a handler that is newer than itself, and says so only when a program calls it.
  Status RegisterFfiHandler(const std::string& name, void* handler) const;

 private:
  friend class Event;
  friend class Buffer;
  friend class Executable;
  Client() = default;
  Status Describe();
  struct Impl;
  std::unique_ptr<Impl> impl_;
  PluginInfo info_;
};

// SHA-256 of the plugin's file, hex: an ingredient of cache keys. Plugins are some 250 MB, which
// takes a fraction of a second, so it is computed when first asked for and remembered by path, size
// and time of change. Thread safe.
Result<std::string> PluginDigest(const std::string& path);

// PJRT_Buffer_Type of a tape::DType's numeric value, for callers in layers that know both.
ElementType ElementTypeFromDType(uint8_t dtype_value);

}  // namespace dendrite::pjrt
