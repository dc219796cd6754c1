// csrc/pjrt/pjrt_api.h - private to csrc/pjrt: the one place that includes pjrt_c_api.h.
//
// A Plugin is a loaded library with a *copy* of its function table, cut or zero-filled to the size
// of the table in our header. So an entry that the plugin does not have, because its API is older
// or because it leaves the entry out, is a null pointer, and no code compares version numbers.
// Plugins are never unloaded; a Plugin pointer is valid for the life of the process and may be used
// from any thread.
#pragma once

#include <pjrt_c_api.h>

#include <string>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/pjrt/client.h"

namespace dendrite::pjrt {

// DENDRITE_PJRT_ARGS(PJRT_Event_Await_Args, args): zeroed arguments of a call, with their size
// filled in.
#define DENDRITE_PJRT_ARGS(Type, name) \
  Type name{};                         \
  name.struct_size = Type##_STRUCT_SIZE

// Arguments of the FFI extension's register_handler, as plugins of API 0.81 to 0.115 read them. The
// extension has no header in the package that ships pjrt_c_api.h.
struct FfiRegisterHandlerArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits;
};
using FfiRegisterHandler = PJRT_Error*(FfiRegisterHandlerArgs*);

struct Plugin {
  std::string path;
  PJRT_Api api{};
  FfiRegisterHandler* register_ffi_handler = nullptr;  // null: no FFI extension

  // "path (PJRT API 0.81)", for messages.
  std::string Describe() const;
  // UNIMPLEMENTED, saying that the plugin lacks `call` and what cannot be done without it.
  Status Lacks(const char* call, const char* needed_for) const;
  // Takes the error over; OK if it is null. `call` goes before the plugin's message.
  Status ToStatus(PJRT_Error* error, const char* call) const {
    return error == nullptr ? Status() : TakeError(error, call);
  }
  // Waits for `event`, destroys it, and returns its error. OK if it is null.
  Status AwaitAndDestroy(PJRT_Event* event, const char* call) const;
  void DestroyEvent(PJRT_Event* event) const;

 private:
  Status TakeError(PJRT_Error* error, const char* call) const;
};

// Loads and initialises the plugin, or returns the one already loaded from the same path.
Result<const Plugin*> LoadPlugin(const std::string& path);

struct Client::Impl {
  const Plugin* plugin = nullptr;
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;
};

}  // namespace dendrite::pjrt
