#include "csrc/device/runtime.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <malloc.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "csrc/base/config.h"
#include "csrc/device/error.h"
#include "csrc/engine/scratch.h"
#include "csrc/pjrt/plugin_memory.h"

namespace dendrite::device {
namespace {

std::mutex g_mu;
Paths g_paths;  // guarded by g_mu until started
engine::Interpreter* g_interpreter = nullptr;
void (*g_destroy_host_storage)(void*) = nullptr;
tape::SourceSite (*g_site)(int32_t) = nullptr;
std::vector<std::pair<std::string, void*>> g_kernels;
std::atomic<Runtime*> g_runtime{nullptr};
std::atomic<bool> g_shut_down{false};
std::atomic<pid_t> g_pid{0};
std::atomic<int> g_default_mode{-1};  // -1: DENDRITE_MODE not read yet
thread_local int t_device = 0;

// A thread's mode travels in its ThreadLocalState, so that autograd's threads take that of the
// backward call that they work for.
constexpr std::string_view kModeName = "dendrite execution mode";
constexpr c10::DebugInfoKind kModeKind(&kModeName);
struct ModeInfo final : c10::DebugInfoBase {
  explicit ModeInfo(int m) : mode(m) {}
  const int mode;
};

static_assert(engine::Arena::kPage % pjrt::kPluginMemoryAlignment == 0);
constexpr pjrt::PluginMemory kPluginMemory = {
    .take = [](size_t nbytes) { return engine::GetScratch().Take(nbytes); },
    .size = [](const void* data) { return engine::GetScratch().Size(data); },
    .give_back = [](void* data) { return engine::GetScratch().GiveBack(data); },
};

void Warn(const std::string& message) { TORCH_WARN(message); }

int FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

void Runtime::SetPaths(Paths paths) {
  std::lock_guard lock(g_mu);
  g_paths = std::move(paths);
}

void Runtime::SetInterpreter(engine::Interpreter* interpreter, void (*destroy)(void*)) {
  g_interpreter = interpreter;
  g_destroy_host_storage = destroy;
}

void Runtime::SetKernels(std::vector<std::pair<std::string, void*>> kernels) {
  g_kernels = std::move(kernels);
}

void Runtime::SetSiteFunction(tape::SourceSite (*site)(int32_t)) { g_site = site; }

int Runtime::DeviceCount() {
  for (const char* name : {"DENDRITE_DEVICES", "LOCAL_WORLD_SIZE"}) {
    const int n = FromEnvironment(name);
    if (n > 0 && n <= 64) return n;
  }
  return 1;
}

bool Runtime::Started() { return g_runtime.load(std::memory_order_acquire) != nullptr; }

Runtime& Runtime::Get() {
  Runtime* runtime = g_runtime.load(std::memory_order_acquire);
  if (runtime != nullptr) {
    TORCH_CHECK(g_pid.load(std::memory_order_relaxed) == getpid(),
                "Cannot re-initialize the neuron device in a forked subprocess. To use it with "
                "multiprocessing, use the 'spawn' start method.");
    return *runtime;
  }
  TORCH_CHECK(!g_shut_down.load(), "the neuron device was shut down: the process is exiting");
  std::lock_guard lock(g_mu);
  if (g_runtime.load() == nullptr) {
    std::unique_ptr<Runtime> started(new Runtime);
    started->Start();
    g_pid = getpid();
    g_runtime.store(started.release(), std::memory_order_release);
  }
  return *g_runtime.load();
}

void Runtime::Start() {
  // The executor, the compiler's threads and autograd's would each keep freed memory in an arena of
  // their own, several times what is in use.
  mallopt(M_ARENA_MAX, 2);
  // Left alone malloc raises to 32 MB the size up to which it keeps what was freed, and keeps it
  // once for each thread's arena.
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
  ThrowIfError(CheckConfig());
  const auto choice = ValueOrThrow(pjrt::ChooseTarget(g_paths.plugins));
  const int tier = ValueOrThrow(GetChoice(Knob::kTier));
  const int devices = DeviceCount();
  target_ = ValueOrThrow(pjrt::OpenTarget(choice));
  // A plugin that cannot be served keeps to malloc: its large launches are slower, no more.
  (void)pjrt::ServePluginMemory(target_.client->info().path, kPluginMemory);

  if (target_.traits.kernels_by_name) {
    for (const auto& [name, handler] : g_kernels)
      ThrowIfError(target_.client->RegisterFfiHandler(name, handler));
  }
  engine::StreamOptions options;
  options.host_visible = target_.traits.host_visible;
  options.tier = static_cast<engine::TierPolicy>(tier);
  options.traits.has_f64 = target_.traits.has_f64;
  options.traits.kernels_by_name =
      target_.traits.kernels_by_name && ValueOrThrow(GetBool(Knob::kKernelsByName));
  options.cuts.max_ops = ValueOrThrow(GetInt(Knob::kSnippetOps));
  options.cuts.max_bytes = ValueOrThrow(GetInt(Knob::kSnippetBytes));
  options.merges.levels = static_cast<int>(ValueOrThrow(GetInt(Knob::kMergeLevels)));
  options.merges.unit_ops = options.cuts.max_ops;
  options.merges.seconds_per_op =
      static_cast<double>(ValueOrThrow(GetInt(Knob::kMergeCost))) * 1e-6;
  // What passes between the operators of a merged snippet lies in the executable's own buffers,
  // beside the device's pool. Where operators write that much, launches cost next to nothing.
  if (options.host_visible) options.merges.max_bytes = options.cuts.max_bytes;
  options.client = target_.client;
  options.interpreter = g_interpreter;
  options.destroy_host_storage = g_destroy_host_storage;
  options.counters = &counters_;
  options.trace = &trace_;
  options.site = g_site;
  options.warn = &Warn;

  // Tier 0 alone never compiles on a host-visible target.
  if (!(options.host_visible && options.tier == engine::TierPolicy::kZero)) {
    compiler::CompileServiceOptions service =
        ValueOrThrow(compiler::CompileServiceOptionsFromConfig());
    service.client = target_.client;
    service.worker_path = g_paths.worker;
    service.target_name = target_.traits.name;
    service.compile_options = target_.traits.compile_options;
    compiler_ = ValueOrThrow(compiler::CompileService::Create(std::move(service)));
  }
  options.compiler = compiler_.get();
  for (int i = 0; i < devices; ++i) {
    PerDevice device;
    device.stream = std::make_unique<engine::Stream>(options);
    engine::Allocator::Options memory;
    memory.host_visible = options.host_visible;
    memory.destroy_host_storage = g_destroy_host_storage;
    memory.completed = &device.stream->completed();
    device.allocator = std::make_unique<engine::Allocator>(memory);
    devices_.push_back(std::move(device));
  }
}

void Runtime::Shutdown() {
  Runtime* runtime = g_runtime.load();
  if (runtime == nullptr || g_shut_down.exchange(true) || g_pid != getpid()) return;
  for (auto& device : runtime->devices_) {
    const Status status = device.stream->Synchronize();
    if (!status.ok()) {
      std::fprintf(stderr, "neuron: an error that nobody read before exit: %s\n",
                   status.message().c_str());
    }
  }
  runtime->compiler_.reset();
  // Tensors may outlive this call (they are freed when Python's modules are): the runtime's memory
  // stays.
}

PerDevice& Runtime::device(int index) {
  TORCH_CHECK(
      index >= 0 && index < static_cast<int>(devices_.size()),
      "invalid device index neuron:", index, ": there ",
      devices_.size() == 1 ? "is 1 device" : "are " + std::to_string(devices_.size()) + " devices");
  return devices_[static_cast<size_t>(index)];
}

int CurrentDevice() { return t_device; }
void SetCurrentDevice(int index) {
  TORCH_CHECK(index >= 0 && index < Runtime::DeviceCount(), "invalid device index neuron:", index,
              ": there are ", Runtime::DeviceCount(), " devices");
  t_device = index;
}

engine::Mode DefaultMode() {
  int mode = g_default_mode.load(std::memory_order_relaxed);
  if (mode < 0) {
    mode = ValueOrThrow(GetChoice(Knob::kMode));
    g_default_mode = mode;
  }
  return static_cast<engine::Mode>(mode);
}
void SetDefaultMode(engine::Mode mode) { g_default_mode = static_cast<int>(mode); }
int ThreadMode() {
  const auto* info = static_cast<const ModeInfo*>(c10::ThreadLocalDebugInfo::get(kModeKind));
  return info != nullptr ? info->mode : -1;
}
void SetThreadMode(int mode) {
  c10::ThreadLocalDebugInfo::_push(kModeKind, std::make_shared<ModeInfo>(mode));
}
engine::Mode CurrentMode() {
  const int chosen = ThreadMode();
  const engine::Mode mode = chosen >= 0 ? static_cast<engine::Mode>(chosen) : DefaultMode();
  return mode == engine::Mode::kAdaptive && at::globalContext().deterministicAlgorithms()
             ? engine::Mode::kDeterministic
             : mode;
}
void ResetThreadMode() { c10::ThreadLocalDebugInfo::_pop(kModeKind); }

}  // namespace dendrite::device
