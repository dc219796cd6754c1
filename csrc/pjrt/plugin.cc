#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "csrc/pjrt/pjrt_api.h"

namespace dendrite::pjrt {
namespace {

struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_id_register;
  void* user_data_add;
  FfiRegisterHandler* register_handler;
};

// What no plugin can be used without. Everything else is checked where it is called.
std::string MissingCalls(const PJRT_Api& api) {
  std::string missing;
  const auto require = [&missing](const void* entry, const char* name) {
    if (entry == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define DENDRITE_REQUIRE(fn) require(reinterpret_cast<const void*>(api.fn), #fn)
  DENDRITE_REQUIRE(PJRT_Error_Destroy);
  DENDRITE_REQUIRE(PJRT_Error_Message);
  DENDRITE_REQUIRE(PJRT_Error_GetCode);
  DENDRITE_REQUIRE(PJRT_Event_Destroy);
  DENDRITE_REQUIRE(PJRT_Event_IsReady);
  DENDRITE_REQUIRE(PJRT_Event_Await);
  DENDRITE_REQUIRE(PJRT_Client_Create);
  DENDRITE_REQUIRE(PJRT_Client_Destroy);
  DENDRITE_REQUIRE(PJRT_Client_PlatformName);
  DENDRITE_REQUIRE(PJRT_Client_PlatformVersion);
  DENDRITE_REQUIRE(PJRT_Client_AddressableDevices);
  DENDRITE_REQUIRE(PJRT_Client_Compile);
  DENDRITE_REQUIRE(PJRT_Client_BufferFromHostBuffer);
  DENDRITE_REQUIRE(PJRT_Executable_Destroy);
  DENDRITE_REQUIRE(PJRT_Executable_NumOutputs);
  DENDRITE_REQUIRE(PJRT_LoadedExecutable_Destroy);
  DENDRITE_REQUIRE(PJRT_LoadedExecutable_GetExecutable);
  DENDRITE_REQUIRE(PJRT_LoadedExecutable_Execute);
  DENDRITE_REQUIRE(PJRT_Buffer_Destroy);
  DENDRITE_REQUIRE(PJRT_Buffer_ToHostBuffer);
#undef DENDRITE_REQUIRE
  return missing;
}

FfiRegisterHandler* FindFfi(const PJRT_Api& api) {
  for (auto* extension = api.extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != PJRT_Extension_Type_FFI) continue;
    if (extension->struct_size < sizeof(FfiExtension)) return nullptr;
    return reinterpret_cast<const FfiExtension*>(extension)->register_handler;
  }
  return nullptr;
}

Result<std::unique_ptr<Plugin>> Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return NotFound("PJRT plugin " + path + ": no such file");
  }
  // XLA prints machine-feature lines at load otherwise; a user's own setting stays.
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return InvalidArgument("PJRT plugin " + path + " cannot be loaded: " + ::dlerror());
  }
  auto* get_api = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    return InvalidArgument(path + " is not a PJRT plugin: it does not export GetPjrtApi");
  }
  const PJRT_Api* table = get_api();
  constexpr size_t kHeaderBytes = offsetof(PJRT_Api, PJRT_Error_Destroy);
  if (table == nullptr || table->struct_size < kHeaderBytes) {
    return InvalidArgument(path + " is not a PJRT plugin: GetPjrtApi returned no function table");
  }
  auto plugin = std::make_unique<Plugin>();
  plugin->path = path;
  std::memcpy(&plugin->api, table, std::min(table->struct_size, sizeof(PJRT_Api)));
  if (plugin->api.pjrt_api_version.major_version != PJRT_API_MAJOR) {
    return Unimplemented("PJRT plugin " + plugin->Describe() +
                         " has another major version of the API than this build, which speaks " +
                         std::to_string(PJRT_API_MAJOR) + "." + std::to_string(PJRT_API_MINOR));
  }
  if (const std::string missing = MissingCalls(plugin->api); !missing.empty()) {
    return Unimplemented("PJRT plugin " + plugin->Describe() +
                         " lacks calls that Dendrite cannot do without: " + missing);
  }
  plugin->register_ffi_handler = FindFfi(plugin->api);
  if (plugin->api.PJRT_Plugin_Initialize != nullptr) {
    DENDRITE_PJRT_ARGS(PJRT_Plugin_Initialize_Args, args);
    DENDRITE_RETURN_IF_ERROR(
        plugin->ToStatus(plugin->api.PJRT_Plugin_Initialize(&args), "PJRT_Plugin_Initialize")
            .WithContext("PJRT plugin " + plugin->Describe()));
  }
  return plugin;
}

Code CodeFrom(PJRT_Error_Code code) {
  if (code == PJRT_Error_Code_UNAUTHENTICATED) return Code::kPermissionDenied;
  if (code <= PJRT_Error_Code_OK || code > PJRT_Error_Code_DATA_LOSS) return Code::kUnknown;
  return static_cast<Code>(code);
}

}  // namespace

std::string Plugin::Describe() const {
  return path + " (PJRT API " + std::to_string(api.pjrt_api_version.major_version) + "." +
         std::to_string(api.pjrt_api_version.minor_version) + ")";
}

Status Plugin::Lacks(const char* call, const char* needed_for) const {
  return Unimplemented("PJRT plugin " + Describe() + " lacks " + call + ", which is needed to " +
                       needed_for);
}

Status Plugin::TakeError(PJRT_Error* error, const char* call) const {
  DENDRITE_PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api.PJRT_Error_Message(&message);
  std::string text = std::string(call) + ": " + std::string(message.message, message.message_size);

  DENDRITE_PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  if (PJRT_Error* nested = api.PJRT_Error_GetCode(&code); nested != nullptr) {
    code.code = PJRT_Error_Code_UNKNOWN;
    DENDRITE_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = nested;
    api.PJRT_Error_Destroy(&destroy);
  }

  DENDRITE_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
  destroy.error = error;
  api.PJRT_Error_Destroy(&destroy);
  return {CodeFrom(code.code), std::move(text)};
}

Status Plugin::AwaitAndDestroy(PJRT_Event* event, const char* call) const {
  if (event == nullptr) return {};
  DENDRITE_PJRT_ARGS(PJRT_Event_Await_Args, args);
  args.event = event;
  Status status = ToStatus(api.PJRT_Event_Await(&args), call);
  DestroyEvent(event);
  return status;
}

void Plugin::DestroyEvent(PJRT_Event* event) const {
  if (event == nullptr) return;
  DENDRITE_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
  args.event = event;
  // Nothing can be done about a failure to release, here and in the other destructors.
  (void)ToStatus(api.PJRT_Event_Destroy(&args), "PJRT_Event_Destroy");
}

Result<const Plugin*> LoadPlugin(const std::string& path) {
  // Held while loading: two threads must not initialise one plugin twice. Leaked, as plugins are.
  static std::mutex& mutex = *new std::mutex;
  static auto& plugins = *new std::map<std::string, std::unique_ptr<Plugin>>;
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(path, error);
  const std::string key = error ? path : canonical.string();
  std::lock_guard<std::mutex> lock(mutex);
  auto& slot = plugins[key];
  if (slot == nullptr) {
    auto opened = Open(path);
    if (!opened.ok()) return opened.status();
    slot = std::move(opened).value();
  }
  return slot.get();
}

}  // namespace dendrite::pjrt
