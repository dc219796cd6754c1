// csrc/device/runtime.h - the process's devices: target, compile service, and per device an
// allocator and a stream. Started by the first tensor, never at import; lives until Shutdown.
//
// Threads: Get and the accessors may be called from any thread. Starting happens once, under a
// lock, and holds no Python lock. A forked child that touches the device gets an error: threads do
// not survive fork.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "csrc/compiler/compile_service.h"
#include "csrc/engine/block.h"
#include "csrc/engine/stream.h"
#include "csrc/pjrt/target.h"

namespace dendrite::device {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

// Where Python found things; set at import, before the runtime starts.
struct Paths {
  pjrt::KnownPlugins plugins;
  std::string worker;
};

struct PerDevice {
  std::unique_ptr<engine::Allocator> allocator;
  std::unique_ptr<engine::Stream> stream;
};

class Runtime {
 public:
  static void SetPaths(Paths paths);
  // The interpreter and the text of source sites come from higher layers.
  static void SetInterpreter(engine::Interpreter* interpreter, void (*destroy_host_storage)(void*));
  // Handlers of kernels by name: (name, XLA_FFI_Handler*).
  static void SetKernels(std::vector<std::pair<std::string, void*>> kernels);
  static void SetSiteFunction(tape::SourceSite (*site)(int32_t));

  // Cheap; starts nothing, never throws. DENDRITE_DEVICES, LOCAL_WORLD_SIZE, else 1.
  static int DeviceCount();
  static bool Started();
  // Starts the runtime if need be; throws a PyTorch error that says why it cannot.
  static Runtime& Get();
  // Drains executors and stops the compile service; the device cannot be used afterwards.
  static void Shutdown();

  PerDevice& device(int index);
  engine::Stream& stream(int index) { return *device(index).stream; }
  const pjrt::TargetTraits& traits() const { return target_.traits; }
  bool host_visible() const { return target_.traits.host_visible; }
  // The PJRT client: opened with the runtime on opaque targets, at the first compile or question
  // otherwise.
  const std::shared_ptr<pjrt::Client>& client() const { return target_.client; }
  compiler::CompileService* compiler() { return compiler_.get(); }
  engine::Counters& counters() { return counters_; }
  engine::Trace& trace() { return trace_; }

 private:
  Runtime() = default;
  void Start();
  pjrt::Target target_;
  std::unique_ptr<compiler::CompileService> compiler_;
  std::vector<PerDevice> devices_;
  std::vector<std::unique_ptr<std::atomic<uint64_t>>> completed_;
  engine::Counters counters_;
  engine::Trace trace_;
};

// The device that new tensors go to, per thread.
int CurrentDevice();
void SetCurrentDevice(int index);

// Process-wide and per-thread execution mode (csrc/engine's Mode, eager or adaptive; the latter is
// kDeterministic while torch.use_deterministic_algorithms is on).
engine::Mode CurrentMode();
void SetDefaultMode(engine::Mode mode);
engine::Mode DefaultMode();
// -1: follow the process's default.
int ThreadMode();
void SetThreadMode(int mode);
// Takes back the last SetThreadMode of this thread. REQUIRES: properly nested.
void ResetThreadMode();

}  // namespace dendrite::device
