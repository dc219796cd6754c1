#include "csrc/pjrt/client.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "csrc/pjrt/pjrt_api.h"

namespace dendrite::pjrt {
namespace {

// CompileOptionsProto { executable_build_options { num_replicas: 1 num_partitions: 1 } }
constexpr char kDefaultCompileOptions[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01};
constexpr std::string_view kDefaultOptions(kDefaultCompileOptions, sizeof(kDefaultCompileOptions));
constexpr std::string_view kProgramFormat = "mlir";
constexpr std::string_view kDeviceCountOption = "cpu_device_count";
constexpr std::string_view kFfiPlatform = "Host";

PJRT_HostBufferSemantics SemanticsFrom(HostBuffer semantics) {
  switch (semantics) {
    case HostBuffer::kCopy:
      return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostBuffer::kImmutableZeroCopy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostBuffer::kMutableZeroCopy:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

}  // namespace

Result<std::shared_ptr<Client>> Client::Create(const std::string& path, int num_devices) {
  DENDRITE_ASSIGN_OR_RETURN(const Plugin* plugin, LoadPlugin(path));
  const std::string context = "PJRT plugin " + plugin->Describe();

  PJRT_NamedValue device_count{};
  device_count.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  device_count.name = kDeviceCountOption.data();
  device_count.name_size = kDeviceCountOption.size();
  device_count.type = PJRT_NamedValue_kInt64;
  device_count.int64_value = num_devices;
  device_count.value_size = 1;
  DENDRITE_PJRT_ARGS(PJRT_Client_Create_Args, create);
  if (num_devices > 0) {
    create.create_options = &device_count;
    create.num_options = 1;
  }
  DENDRITE_RETURN_IF_ERROR(
      plugin->ToStatus(plugin->api.PJRT_Client_Create(&create), "PJRT_Client_Create")
          .WithContext(context));

  // From here the destructor releases the raw client.
  std::shared_ptr<Client> client(new Client());
  client->impl_ = std::make_unique<Impl>();
  client->impl_->plugin = plugin;
  client->impl_->client = create.client;
  DENDRITE_RETURN_IF_ERROR(client->Describe().WithContext(context));
  return client;
}

Status Client::Describe() {
  const PJRT_Api& api = impl_->plugin->api;
  info_.path = impl_->plugin->path;
  info_.api_major = api.pjrt_api_version.major_version;
  info_.api_minor = api.pjrt_api_version.minor_version;
  info_.has_ffi = impl_->plugin->register_ffi_handler != nullptr;
  info_.has_pointers = api.PJRT_Buffer_UnsafePointer != nullptr;
  info_.can_serialize =
      api.PJRT_Executable_Serialize != nullptr && api.PJRT_Executable_DeserializeAndLoad != nullptr;

  DENDRITE_PJRT_ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = impl_->client;
  DENDRITE_RETURN_IF_ERROR(
      impl_->plugin->ToStatus(api.PJRT_Client_PlatformName(&name), "PJRT_Client_PlatformName"));
  info_.platform_name.assign(name.platform_name, name.platform_name_size);

  DENDRITE_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = impl_->client;
  DENDRITE_RETURN_IF_ERROR(impl_->plugin->ToStatus(api.PJRT_Client_PlatformVersion(&version),
                                                   "PJRT_Client_PlatformVersion"));
  info_.platform_version.assign(version.platform_version, version.platform_version_size);

  DENDRITE_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, devices);
  devices.client = impl_->client;
  DENDRITE_RETURN_IF_ERROR(impl_->plugin->ToStatus(api.PJRT_Client_AddressableDevices(&devices),
                                                   "PJRT_Client_AddressableDevices"));
  if (devices.num_addressable_devices == 0) return Unavailable("the plugin sees no device");
  impl_->devices.assign(devices.addressable_devices,
                        devices.addressable_devices + devices.num_addressable_devices);
  info_.num_devices = static_cast<int>(devices.num_addressable_devices);
  return {};
}

Client::~Client() {
  if (impl_ == nullptr || impl_->client == nullptr) return;
  DENDRITE_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = impl_->client;
  (void)impl_->plugin->ToStatus(impl_->plugin->api.PJRT_Client_Destroy(&args),
                                "PJRT_Client_Destroy");
}

Result<Executable> Client::Compile(std::string_view stablehlo,
                                   std::string_view compile_options) const {
  const Plugin& plugin = *impl_->plugin;
  if (compile_options.empty()) compile_options = kDefaultOptions;
  DENDRITE_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(stablehlo.data());  // the C API reads it only
  program.code_size = stablehlo.size();
  program.format = kProgramFormat.data();
  program.format_size = kProgramFormat.size();
  DENDRITE_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = impl_->client;
  args.program = &program;
  args.compile_options = compile_options.data();
  args.compile_options_size = compile_options.size();
  DENDRITE_RETURN_IF_ERROR(
      plugin.ToStatus(plugin.api.PJRT_Client_Compile(&args), "PJRT_Client_Compile"));
  Executable executable;
  DENDRITE_RETURN_IF_ERROR(executable.Init(shared_from_this(), args.executable));
  return executable;
}

Result<Executable> Client::Deserialize(std::string_view bytes) const {
  const Plugin& plugin = *impl_->plugin;
  if (plugin.api.PJRT_Executable_DeserializeAndLoad == nullptr) {
    return plugin.Lacks("PJRT_Executable_DeserializeAndLoad", "load a kept executable");
  }
  // Some plugins crash on nothing at all, and none can make an executable of it.
  if (bytes.empty()) return InvalidArgument("Deserialize of no bytes");
  DENDRITE_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = impl_->client;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  DENDRITE_RETURN_IF_ERROR(plugin.ToStatus(plugin.api.PJRT_Executable_DeserializeAndLoad(&args),
                                           "PJRT_Executable_DeserializeAndLoad"));
  Executable executable;
  DENDRITE_RETURN_IF_ERROR(executable.Init(shared_from_this(), args.loaded_executable));
  return executable;
}

Result<Buffer> Client::FromHost(const void* data, ElementType type,
                                const std::vector<int64_t>& dims, HostBuffer semantics,
                                int device) const {
  const Plugin& plugin = *impl_->plugin;
  if (device < 0 || device >= info_.num_devices) {
    return InvalidArgument("FromHost: device " + std::to_string(device) + " of " +
                           std::to_string(info_.num_devices));
  }
  DENDRITE_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = impl_->client;
  args.data = data;
  args.type = static_cast<PJRT_Buffer_Type>(type);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = SemanticsFrom(semantics);
  args.device = impl_->devices[static_cast<size_t>(device)];
  DENDRITE_RETURN_IF_ERROR(plugin.ToStatus(plugin.api.PJRT_Client_BufferFromHostBuffer(&args),
                                           "PJRT_Client_BufferFromHostBuffer"));
  Buffer buffer;
  buffer.client_ = shared_from_this();
  buffer.raw_ = args.buffer;
  if (semantics == HostBuffer::kCopy) {
    // Ready already if the plugin keeps to the semantics; our callers reuse the memory at once.
    DENDRITE_RETURN_IF_ERROR(
        plugin.AwaitAndDestroy(args.done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer"));
  } else {
    // Fires when the buffer is gone, so waiting here would never end. The memory's owner keeps it
    // past the buffer and every execution that reads it, so nobody needs the event.
    plugin.DestroyEvent(args.done_with_host_buffer);
  }
  return buffer;
}

Status Client::RegisterFfiHandler(const std::string& name, void* handler) const {
  const Plugin& plugin = *impl_->plugin;
  if (plugin.register_ffi_handler == nullptr) {
    return plugin.Lacks("the FFI extension", "call kernels by name");
  }
  FfiRegisterHandlerArgs args{};
  args.struct_size = sizeof(args);
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.handler = handler;
  args.platform_name = kFfiPlatform.data();
  args.platform_name_size = kFfiPlatform.size();
  return plugin.ToStatus(plugin.register_ffi_handler(&args), "FFI register_handler")
      .WithContext("kernel " + name);
}

ElementType ElementTypeFromDType(uint8_t dtype_value) {
  // In the order of tape::DType, which this layer may not include.
  static constexpr ElementType kTypes[] = {
      PJRT_Buffer_Type_INVALID, PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_U8,  PJRT_Buffer_Type_S8,
      PJRT_Buffer_Type_S16,     PJRT_Buffer_Type_S32,  PJRT_Buffer_Type_S64, PJRT_Buffer_Type_F16,
      PJRT_Buffer_Type_BF16,    PJRT_Buffer_Type_F32,  PJRT_Buffer_Type_F64, PJRT_Buffer_Type_C64,
      PJRT_Buffer_Type_C128,    PJRT_Buffer_Type_U16,  PJRT_Buffer_Type_U32, PJRT_Buffer_Type_U64};
  return dtype_value < std::size(kTypes) ? kTypes[dtype_value] : PJRT_Buffer_Type_INVALID;
}

}  // namespace dendrite::pjrt
