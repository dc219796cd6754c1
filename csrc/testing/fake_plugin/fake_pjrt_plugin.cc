// csrc/testing/fake_plugin/fake_pjrt_plugin.cc - a PJRT plugin for tests that computes nothing.
//
// A result is a copy of the argument that @main returns, or zeros; a result that aliases an
// argument lands in the argument's memory. What it is for is trouble, chosen by environment
// variables. The first group is read once, when the library is loaded (copy the file to load it
// twice), the second at each call:
//   DENDRITE_FAKE_PLATFORM          platform name; "fake"
//   DENDRITE_FAKE_API_MAJOR         major version in the table; 0
//   DENDRITE_FAKE_TRUNCATE_AT       entry from which on the table is cut off, as in an old API
//   DENDRITE_FAKE_WITHOUT           comma-separated entries that are null
//   DENDRITE_FAKE_NO_SERIALIZE=1    short for
//   WITHOUT=PJRT_Executable_Serialize,...DeserializeAndLoad DENDRITE_FAKE_DEVICES           number
//   of devices; 1 DENDRITE_FAKE_NO_DONATION=1     aliasing is ignored
//   DENDRITE_FAKE_COMPILE_DELAY_MS  time that a compile takes
//   DENDRITE_FAKE_COMPILE_ERROR     a program that contains this text does not compile
//   DENDRITE_FAKE_EXECUTE_DELAY_MS  time until a launch's event fires
//   DENDRITE_FAKE_EXECUTE_ERROR     "call": the launch fails; "late": its event does
//   DENDRITE_FAKE_LOG               file that gets one line per compile, load and launch
// Any thread, like a real plugin.
#include <fcntl.h>
#include <pjrt_c_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "csrc/testing/fake_plugin/fake_program.h"

using dendrite::fake::ParseProgram;
using dendrite::fake::Program;
using dendrite::fake::TensorType;
using SteadyTime = std::chrono::steady_clock::time_point;

// The C API's opaque types. Handles own what they point to.
struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};
struct PJRT_Event {
  SteadyTime ready_at;
  std::string error;  // empty: success
};
struct PJRT_Device {
  int id;
};
struct PJRT_Client {
  std::string platform;
  std::vector<std::unique_ptr<PJRT_Device>> devices;
  std::vector<PJRT_Device*> device_pointers;
};
struct PJRT_Executable {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const std::string> text;
};
struct PJRT_LoadedExecutable {
  PJRT_Executable executable;
};
struct PJRT_Buffer {
  TensorType type;
  std::shared_ptr<char> memory;  // does not own zero-copy memory
  bool can_donate = true;        // false: immutable memory of the host
  bool deleted = false;
};
struct PJRT_SerializedExecutable {
  std::string bytes;
};

namespace {

constexpr size_t kAlignment = 64;
constexpr std::string_view kSerializedMagic = "dendrite-fake-executable\n";
constexpr char kPlatformVersion[] = "fake 1";

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
bool EnvFlag(const char* name) { return Env(name) == "1"; }
std::chrono::milliseconds EnvMillis(const char* name) {
  return std::chrono::milliseconds(std::atol(Env(name).c_str()));
}

void Log(const std::string& line) {
  const std::string path = Env("DENDRITE_FAKE_LOG");
  if (path.empty()) return;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text = line + "\n";
  if (::write(fd, text.data(), text.size()) < 0) std::abort();  // a test would count wrongly
  ::close(fd);
}

PJRT_Error* MakeError(PJRT_Error_Code code, std::string message) {
  return new PJRT_Error{code, std::move(message)};
}

std::shared_ptr<char> Allocate(size_t bytes) {
  const size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;  // never of size 0
  auto* memory = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
  std::memset(memory, 0, rounded);
  return {memory, [](char* p) { std::free(p); }};
}

void ErrorDestroy(PJRT_Error_Destroy_Args* args) { delete args->error; }
void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}
PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}
PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}
PJRT_Error* EventIsReady(PJRT_Event_IsReady_Args* args) {
  args->is_ready = std::chrono::steady_clock::now() >= args->event->ready_at;
  return nullptr;
}
PJRT_Error* EventAwait(PJRT_Event_Await_Args* args) {
  std::this_thread::sleep_until(args->event->ready_at);
  if (args->event->error.empty()) return nullptr;
  return MakeError(PJRT_Error_Code_INTERNAL, args->event->error);
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  auto client = std::make_unique<PJRT_Client>();
  client->platform = Env("DENDRITE_FAKE_PLATFORM");
  if (client->platform.empty()) client->platform = "fake";
  const std::string count = Env("DENDRITE_FAKE_DEVICES");
  int64_t num_devices = count.empty() ? 1 : std::atol(count.c_str());
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string_view name(option.name, option.name_size);
    if (name != "cpu_device_count" || client->platform != "cpu") {
      return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "unknown option " + std::string(name));
    }
    num_devices = option.int64_value;
  }
  for (int i = 0; i < num_devices; ++i) {
    client->devices.push_back(std::make_unique<PJRT_Device>(PJRT_Device{i}));
    client->device_pointers.push_back(client->devices.back().get());
  }
  args->client = client.release();
  return nullptr;
}
PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}
PJRT_Error* ClientPlatformName(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = args->client->platform.data();
  args->platform_name_size = args->client->platform.size();
  return nullptr;
}
PJRT_Error* ClientPlatformVersion(PJRT_Client_PlatformVersion_Args* args) {
  args->platform_version = kPlatformVersion;
  args->platform_version_size = sizeof(kPlatformVersion) - 1;
  return nullptr;
}
PJRT_Error* ClientAddressableDevices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->device_pointers.data();
  args->num_addressable_devices = args->client->device_pointers.size();
  return nullptr;
}

PJRT_Error* Load(std::string text, PJRT_LoadedExecutable** out) {
  auto program = std::make_shared<Program>();
  std::string error;
  if (!ParseProgram(text, program.get(), &error)) {
    return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, error);
  }
  auto shared_text = std::make_shared<const std::string>(std::move(text));
  *out = new PJRT_LoadedExecutable{{std::move(program), std::move(shared_text)}};
  return nullptr;
}

PJRT_Error* ClientCompile(PJRT_Client_Compile_Args* args) {
  Log("compile");
  std::this_thread::sleep_for(EnvMillis("DENDRITE_FAKE_COMPILE_DELAY_MS"));
  std::string text(args->program->code, args->program->code_size);
  const std::string refused = Env("DENDRITE_FAKE_COMPILE_ERROR");
  if (!refused.empty() && text.find(refused) != std::string::npos) {
    return MakeError(PJRT_Error_Code_INTERNAL, "fake plugin: asked to refuse \"" + refused + "\"");
  }
  return Load(std::move(text), &args->executable);
}

PJRT_Error* BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args) {
  auto buffer = std::make_unique<PJRT_Buffer>();
  buffer->type.type = args->type;
  buffer->type.dims.assign(args->dims, args->dims + args->num_dims);
  if (dendrite::fake::ElementBytes(args->type) == 0) {
    return MakeError(PJRT_Error_Code_UNIMPLEMENTED, "fake plugin: unknown element type");
  }
  const bool immutable = args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy;
  const bool zero_copy =
      (immutable || args->host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy) &&
      reinterpret_cast<uintptr_t>(args->data) % kAlignment == 0;
  if (zero_copy) {
    auto* memory = static_cast<char*>(const_cast<void*>(args->data));
    buffer->memory = std::shared_ptr<char>(memory, [](char*) {});
    buffer->can_donate = !immutable;
  } else {
    buffer->memory = Allocate(buffer->type.Bytes());
    std::memcpy(buffer->memory.get(), args->data, buffer->type.Bytes());
  }
  args->done_with_host_buffer = new PJRT_Event{};
  args->buffer = buffer.release();
  return nullptr;
}

PJRT_Error* ExecutableDestroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}
PJRT_Error* ExecutableNumOutputs(PJRT_Executable_NumOutputs_Args* args) {
  args->num_outputs = args->executable->program->results.size();
  return nullptr;
}
PJRT_Error* ExecutableSerialize(PJRT_Executable_Serialize_Args* args) {
  auto bytes = std::string(kSerializedMagic) + *args->executable->text;
  args->serialized_executable = new PJRT_SerializedExecutable{std::move(bytes)};
  args->serialized_bytes = args->serialized_executable->bytes.data();
  args->serialized_bytes_size = args->serialized_executable->bytes.size();
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* e) { delete e; };
  return nullptr;
}
PJRT_Error* DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args) {
  Log("load");
  std::string_view bytes(args->serialized_executable, args->serialized_executable_size);
  if (!bytes.starts_with(kSerializedMagic)) {
    return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: not an executable of its own");
  }
  bytes.remove_prefix(kSerializedMagic.size());
  return Load(std::string(bytes), &args->loaded_executable);
}
PJRT_Error* GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  const Program& program = *args->executable->program;
  args->generated_code_size_in_bytes = static_cast<int64_t>(args->executable->text->size());
  args->argument_size_in_bytes = args->output_size_in_bytes = 0;
  args->alias_size_in_bytes = args->temp_size_in_bytes = 0;
  for (const Program::Argument& argument : program.arguments) {
    const auto bytes = static_cast<int64_t>(argument.type.Bytes());
    args->argument_size_in_bytes += bytes;
    if (argument.aliased_output >= 0) args->alias_size_in_bytes += bytes;
  }
  for (const Program::Result& result : program.results) {
    args->output_size_in_bytes += static_cast<int64_t>(result.type.Bytes());
  }
  return nullptr;
}
PJRT_Error* LoadedExecutableDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}
PJRT_Error* GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  args->executable = new PJRT_Executable(args->loaded_executable->executable);
  return nullptr;
}

PJRT_Error* CheckArguments(const Program& program, PJRT_Buffer* const* arguments, size_t count) {
  if (count != program.arguments.size()) {
    return MakeError(PJRT_Error_Code_INVALID_ARGUMENT,
                     "fake plugin: launched with " + std::to_string(count) + " arguments, takes " +
                         std::to_string(program.arguments.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i]->deleted) {
      return MakeError(PJRT_Error_Code_INVALID_ARGUMENT,
                       "fake plugin: argument " + std::to_string(i) + " was deleted or donated");
    }
    if (arguments[i]->type.Bytes() != program.arguments[i].type.Bytes()) {
      return MakeError(PJRT_Error_Code_INVALID_ARGUMENT,
                       "fake plugin: argument " + std::to_string(i) + " has another size");
    }
  }
  return nullptr;
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  Log("launch");
  const Program& program = *args->executable->executable.program;
  PJRT_Buffer* const* arguments = args->argument_lists[0];
  const std::string trouble = Env("DENDRITE_FAKE_EXECUTE_ERROR");
  if (trouble == "call") {
    return MakeError(PJRT_Error_Code_INTERNAL, "fake plugin: asked to fail the launch");
  }
  if (PJRT_Error* error = CheckArguments(program, arguments, args->num_args)) return error;

  std::vector<std::shared_ptr<char>> memory(program.results.size());
  std::vector<PJRT_Buffer*> donated;
  for (size_t i = 0; i < args->num_args && !EnvFlag("DENDRITE_FAKE_NO_DONATION"); ++i) {
    bool keep = !arguments[i]->can_donate || program.arguments[i].aliased_output < 0;
    for (size_t k = 0; k < args->options->num_non_donatable_input_indices; ++k) {
      keep |= args->options->non_donatable_input_indices[k] == static_cast<int64_t>(i);
    }
    if (keep) continue;
    memory[static_cast<size_t>(program.arguments[i].aliased_output)] = arguments[i]->memory;
    donated.push_back(arguments[i]);
  }
  // All values are read before any is written: a donated argument may be another result's value.
  std::vector<std::string> values;
  for (const Program::Result& result : program.results) {
    const int from = result.returned_argument;
    values.emplace_back(result.type.Bytes(), '\0');
    if (from >= 0) {
      std::memcpy(values.back().data(), arguments[from]->memory.get(), values.back().size());
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (memory[i] == nullptr) memory[i] = Allocate(values[i].size());
    std::memcpy(memory[i].get(), values[i].data(), values[i].size());
    args->output_lists[0][i] = new PJRT_Buffer{program.results[i].type, memory[i]};
  }
  for (PJRT_Buffer* buffer : donated) buffer->deleted = true;
  if (args->device_complete_events != nullptr) {
    const auto ready_at =
        std::chrono::steady_clock::now() + EnvMillis("DENDRITE_FAKE_EXECUTE_DELAY_MS");
    args->device_complete_events[0] = new PJRT_Event{
        ready_at, trouble == "late" ? "fake plugin: asked to fail while running" : ""};
  }
  return nullptr;
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}
PJRT_Error* CheckAlive(const PJRT_Buffer* buffer) {
  if (!buffer->deleted) return nullptr;
  return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: the buffer was donated");
}
PJRT_Error* BufferDimensions(PJRT_Buffer_Dimensions_Args* args) {
  args->dims = args->buffer->type.dims.data();
  args->num_dims = args->buffer->type.dims.size();
  return nullptr;
}
PJRT_Error* BufferToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* args) {
  if (PJRT_Error* error = CheckAlive(args->src)) return error;
  const size_t bytes = args->src->type.Bytes();
  if (args->dst_size < bytes) {
    return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: the destination is too small");
  }
  std::memcpy(args->dst, args->src->memory.get(), bytes);
  args->event = new PJRT_Event{};
  return nullptr;
}
PJRT_Error* BufferOnDeviceSize(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  args->on_device_size_in_bytes = args->buffer->type.Bytes();
  return nullptr;
}
PJRT_Error* BufferUnsafePointer(PJRT_Buffer_UnsafePointer_Args* args) {
  if (PJRT_Error* error = CheckAlive(args->buffer)) return error;
  args->buffer_pointer = reinterpret_cast<uintptr_t>(args->buffer->memory.get());
  return nullptr;
}

PJRT_Api MakeTable() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = std::atoi(Env("DENDRITE_FAKE_API_MAJOR").c_str());
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  const std::string without = "," + Env("DENDRITE_FAKE_WITHOUT") + "," +
                              (EnvFlag("DENDRITE_FAKE_NO_SERIALIZE")
                                   ? "PJRT_Executable_Serialize,PJRT_Executable_DeserializeAndLoad,"
                                   : "");
  const std::string truncate_at = Env("DENDRITE_FAKE_TRUNCATE_AT");
#define DENDRITE_FAKE_ENTRY(name, function)               \
  if (without.find("," #name ",") == std::string::npos) { \
    api.name = function;                                  \
  }                                                       \
  if (truncate_at == #name) api.struct_size = offsetof(PJRT_Api, name)
  DENDRITE_FAKE_ENTRY(PJRT_Error_Destroy, ErrorDestroy);
  DENDRITE_FAKE_ENTRY(PJRT_Error_Message, ErrorMessage);
  DENDRITE_FAKE_ENTRY(PJRT_Error_GetCode, ErrorGetCode);
  DENDRITE_FAKE_ENTRY(PJRT_Plugin_Initialize, PluginInitialize);
  DENDRITE_FAKE_ENTRY(PJRT_Event_Destroy, EventDestroy);
  DENDRITE_FAKE_ENTRY(PJRT_Event_IsReady, EventIsReady);
  DENDRITE_FAKE_ENTRY(PJRT_Event_Await, EventAwait);
  DENDRITE_FAKE_ENTRY(PJRT_Client_Create, ClientCreate);
  DENDRITE_FAKE_ENTRY(PJRT_Client_Destroy, ClientDestroy);
  DENDRITE_FAKE_ENTRY(PJRT_Client_PlatformName, ClientPlatformName);
  DENDRITE_FAKE_ENTRY(PJRT_Client_PlatformVersion, ClientPlatformVersion);
  DENDRITE_FAKE_ENTRY(PJRT_Client_AddressableDevices, ClientAddressableDevices);
  DENDRITE_FAKE_ENTRY(PJRT_Client_Compile, ClientCompile);
  DENDRITE_FAKE_ENTRY(PJRT_Client_BufferFromHostBuffer, BufferFromHostBuffer);
  DENDRITE_FAKE_ENTRY(PJRT_Executable_Destroy, ExecutableDestroy);
  DENDRITE_FAKE_ENTRY(PJRT_Executable_NumOutputs, ExecutableNumOutputs);
  DENDRITE_FAKE_ENTRY(PJRT_Executable_Serialize, ExecutableSerialize);
  DENDRITE_FAKE_ENTRY(PJRT_Executable_DeserializeAndLoad, DeserializeAndLoad);
  DENDRITE_FAKE_ENTRY(PJRT_Executable_GetCompiledMemoryStats, GetCompiledMemoryStats);
  DENDRITE_FAKE_ENTRY(PJRT_LoadedExecutable_Destroy, LoadedExecutableDestroy);
  DENDRITE_FAKE_ENTRY(PJRT_LoadedExecutable_GetExecutable, GetExecutable);
  DENDRITE_FAKE_ENTRY(PJRT_LoadedExecutable_Execute, Execute);
  DENDRITE_FAKE_ENTRY(PJRT_Buffer_Destroy, BufferDestroy);
  DENDRITE_FAKE_ENTRY(PJRT_Buffer_Dimensions, BufferDimensions);
  DENDRITE_FAKE_ENTRY(PJRT_Buffer_ToHostBuffer, BufferToHostBuffer);
  DENDRITE_FAKE_ENTRY(PJRT_Buffer_OnDeviceSizeInBytes, BufferOnDeviceSize);
  DENDRITE_FAKE_ENTRY(PJRT_Buffer_UnsafePointer, BufferUnsafePointer);
#undef DENDRITE_FAKE_ENTRY
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = MakeTable();
  return &api;
}
