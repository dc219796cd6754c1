#include <array>
#include <utility>

#include "csrc/pjrt/pjrt_api.h"

namespace dendrite::pjrt {
namespace {

// A launch's handles live on the stack up to this many, since a launch should not allocate.
constexpr size_t kInlineHandles = 64;

class HandleArray {
 public:
  explicit HandleArray(size_t size) {
    if (size > kInlineHandles) heap_.resize(size);
  }
  PJRT_Buffer** data() { return heap_.empty() ? inline_.data() : heap_.data(); }

 private:
  std::array<PJRT_Buffer*, kInlineHandles> inline_;
  std::vector<PJRT_Buffer*> heap_;
};

// The unloaded form of an executable, which serialisation and statistics ask about.
class UnloadedExecutable {
 public:
  UnloadedExecutable(const Plugin& plugin, void* loaded) : plugin_(plugin) {
    DENDRITE_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
    args.loaded_executable = static_cast<PJRT_LoadedExecutable*>(loaded);
    status_ = plugin.ToStatus(plugin.api.PJRT_LoadedExecutable_GetExecutable(&args),
                              "PJRT_LoadedExecutable_GetExecutable");
    if (status_.ok()) raw_ = args.executable;
  }
  UnloadedExecutable(const UnloadedExecutable&) = delete;
  UnloadedExecutable& operator=(const UnloadedExecutable&) = delete;
  ~UnloadedExecutable() {
    if (raw_ == nullptr) return;
    DENDRITE_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
    args.executable = raw_;
    (void)plugin_.ToStatus(plugin_.api.PJRT_Executable_Destroy(&args), "PJRT_Executable_Destroy");
  }
  const Status& status() const { return status_; }
  PJRT_Executable* get() const { return raw_; }

 private:
  const Plugin& plugin_;
  PJRT_Executable* raw_ = nullptr;
  Status status_;
};

}  // namespace

Executable::~Executable() {
  if (raw_ == nullptr) return;
  const Plugin& plugin = *client_->impl_->plugin;
  DENDRITE_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = static_cast<PJRT_LoadedExecutable*>(raw_);
  (void)plugin.ToStatus(plugin.api.PJRT_LoadedExecutable_Destroy(&args),
                        "PJRT_LoadedExecutable_Destroy");
}

Executable::Executable(Executable&& other) noexcept
    : client_(std::move(other.client_)),
      raw_(std::exchange(other.raw_, nullptr)),
      num_outputs_(std::exchange(other.num_outputs_, 0)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  Executable old(std::move(*this));
  client_ = std::move(other.client_);
  raw_ = std::exchange(other.raw_, nullptr);
  num_outputs_ = std::exchange(other.num_outputs_, 0);
  return *this;
}

Status Executable::Init(std::shared_ptr<const Client> client, void* raw) {
  client_ = std::move(client);
  raw_ = raw;
  const Plugin& plugin = *client_->impl_->plugin;
  UnloadedExecutable unloaded(plugin, raw_);
  DENDRITE_RETURN_IF_ERROR(unloaded.status());
  DENDRITE_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, args);
  args.executable = unloaded.get();
  DENDRITE_RETURN_IF_ERROR(
      plugin.ToStatus(plugin.api.PJRT_Executable_NumOutputs(&args), "PJRT_Executable_NumOutputs"));
  num_outputs_ = args.num_outputs;
  return {};
}

Result<Event> Executable::Execute(const std::vector<Buffer*>& args, std::vector<Buffer>* outputs,
                                  const std::vector<int64_t>& non_donatable, int device) const {
  if (raw_ == nullptr) return FailedPrecondition("Execute of an executable that is not defined");
  const auto& devices = client_->impl_->devices;
  if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
    return InvalidArgument("Execute: device " + std::to_string(device) + " of " +
                           std::to_string(devices.size()));
  }
  const Plugin& plugin = *client_->impl_->plugin;
  HandleArray inputs(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == nullptr || args[i]->raw_ == nullptr) {
      return InvalidArgument("Execute: argument " + std::to_string(i) + " is not defined");
    }
    inputs.data()[i] = static_cast<PJRT_Buffer*>(args[i]->raw_);
  }
  HandleArray results(num_outputs_);

  DENDRITE_PJRT_ARGS(PJRT_ExecuteOptions, options);
  options.non_donatable_input_indices = non_donatable.data();
  options.num_non_donatable_input_indices = non_donatable.size();
  PJRT_Buffer* const* input_list = inputs.data();
  PJRT_Buffer** result_list = results.data();
  PJRT_Event* complete = nullptr;
  DENDRITE_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, call);
  call.executable = static_cast<PJRT_LoadedExecutable*>(raw_);
  call.options = &options;
  call.argument_lists = &input_list;
  call.num_devices = 1;
  call.num_args = args.size();
  call.output_lists = &result_list;
  call.device_complete_events = &complete;
  call.execute_device = devices[static_cast<size_t>(device)];
  DENDRITE_RETURN_IF_ERROR(plugin.ToStatus(plugin.api.PJRT_LoadedExecutable_Execute(&call),
                                           "PJRT_LoadedExecutable_Execute"));
  outputs->resize(num_outputs_);
  for (size_t i = 0; i < num_outputs_; ++i) {
    Buffer result;
    result.client_ = client_;
    result.raw_ = result_list[i];
    (*outputs)[i] = std::move(result);
  }
  Event event;
  event.client_ = client_;
  event.raw_ = complete;
  return event;
}

Result<std::string> Executable::Serialize() const {
  if (raw_ == nullptr) return FailedPrecondition("Serialize of an executable that is not defined");
  const Plugin& plugin = *client_->impl_->plugin;
  if (plugin.api.PJRT_Executable_Serialize == nullptr) {
    return plugin.Lacks("PJRT_Executable_Serialize", "keep a compiled executable");
  }
  UnloadedExecutable unloaded(plugin, raw_);
  DENDRITE_RETURN_IF_ERROR(unloaded.status());
  DENDRITE_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = unloaded.get();
  DENDRITE_RETURN_IF_ERROR(
      plugin.ToStatus(plugin.api.PJRT_Executable_Serialize(&args), "PJRT_Executable_Serialize"));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr) {
    args.serialized_executable_deleter(args.serialized_executable);
  }
  return bytes;
}

Result<MemoryStats> Executable::GetMemoryStats() const {
  if (raw_ == nullptr) {
    return FailedPrecondition("GetMemoryStats of an executable that is not defined");
  }
  const Plugin& plugin = *client_->impl_->plugin;
  if (plugin.api.PJRT_Executable_GetCompiledMemoryStats == nullptr) {
    return plugin.Lacks("PJRT_Executable_GetCompiledMemoryStats",
                        "see what an executable allocates");
  }
  UnloadedExecutable unloaded(plugin, raw_);
  DENDRITE_RETURN_IF_ERROR(unloaded.status());
  DENDRITE_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = unloaded.get();
  DENDRITE_RETURN_IF_ERROR(plugin.ToStatus(plugin.api.PJRT_Executable_GetCompiledMemoryStats(&args),
                                           "PJRT_Executable_GetCompiledMemoryStats"));
  MemoryStats stats;
  stats.temp_bytes = args.temp_size_in_bytes;
  stats.argument_bytes = args.argument_size_in_bytes;
  stats.output_bytes = args.output_size_in_bytes;
  stats.alias_bytes = args.alias_size_in_bytes;
  stats.code_bytes = args.generated_code_size_in_bytes;
  return stats;
}

}  // namespace dendrite::pjrt
