#include "csrc/pjrt/target.h"

#include <cstdlib>
#include <filesystem>

#include "csrc/base/config.h"

namespace dendrite::pjrt {
namespace {

constexpr std::string_view kEmbedded = "embedded";
constexpr std::string_view kOpaqueName = "opaque";
constexpr std::string_view kTrainium = "trainium";
constexpr std::string_view kAutomatic = "auto";
// PyTorch/XLA and JAX read this one too, so a Neuron host may have it set already.
constexpr const char* kNeuronPluginVariable = "NEURON_PJRT_PLUGIN";

std::vector<TargetTraits> MakeTable() {
  TargetTraits embedded;
  embedded.name = kEmbedded;
  embedded.platform = "cpu";
  embedded.host_visible = true;
  embedded.has_f64 = true;
  embedded.donation = true;
  embedded.serialization = true;
  embedded.kernels_by_name = true;
  embedded.min_api_minor = 81;
  embedded.compile_options = kPortableCompileOptions;

  // The same plugin, used as if nothing of this process could reach the device.
  TargetTraits opaque = embedded;
  opaque.name = kOpaqueName;
  opaque.platform.clear();
  opaque.host_visible = false;
  opaque.kernels_by_name = false;

  TargetTraits trainium;
  trainium.name = kTrainium;
  trainium.platform = "neuron";
  trainium.donation = true;
  trainium.serialization = true;
  trainium.note =
      "The trainium target has never run on hardware: its traits come from public documentation. "
      "float64 is not available.";

  TargetTraits generic;
  generic.name = "generic";
  generic.note =
      "No traits are known for this plugin's platform: device memory is taken to be out of the "
      "host's reach, without float64, donation or stored executables.";
  return {embedded, opaque, trainium, generic};
}

std::string EnvironmentOr(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

Status CheckExists(const std::string& path, const char* source) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return {};
  return NotFound(std::string(source) + ": " + path + ": no such file");
}

// Which row the environment asks for by name; empty if none.
Result<std::string> ExplicitName() {
  DENDRITE_ASSIGN_OR_RETURN(std::string name, GetString(Knob::kTarget));
  if (name != kAutomatic) return name;
  DENDRITE_ASSIGN_OR_RETURN(const bool opaque, GetBool(Knob::kOpaque));
  return std::string(opaque ? kOpaqueName : "");
}

Result<std::string> OwnPlugin(const std::string& target, const KnownPlugins& known) {
  if (target == kTrainium) {
    const std::string from_environment = EnvironmentOr(kNeuronPluginVariable, "");
    if (!from_environment.empty()) {
      DENDRITE_RETURN_IF_ERROR(CheckExists(from_environment, kNeuronPluginVariable));
      return from_environment;
    }
    if (known.trainium.empty()) {
      return NotFound(
          "target trainium needs AWS's PJRT plugin: install the package libneuronxla, or set "
          "NEURON_PJRT_PLUGIN or DENDRITE_PJRT_PLUGIN to the path of libneuronpjrt.so");
    }
    DENDRITE_RETURN_IF_ERROR(CheckExists(known.trainium, "target trainium"));
    return known.trainium;
  }
  if (known.embedded.empty()) {
    return NotFound("target " + target +
                    " needs XLA's CPU plugin: install the package fastatomstruct-xla-cpu, or set "
                    "DENDRITE_PJRT_PLUGIN to the path of a PJRT plugin");
  }
  DENDRITE_RETURN_IF_ERROR(CheckExists(known.embedded, "the CPU plugin"));
  return known.embedded;
}

}  // namespace

const std::vector<TargetTraits>& TargetTable() {
  static const auto& table = *new std::vector<TargetTraits>(MakeTable());
  return table;
}

const TargetTraits* FindTarget(std::string_view name) {
  for (const TargetTraits& row : TargetTable()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const TargetTraits& TargetForPlatform(std::string_view platform) {
  for (const TargetTraits& row : TargetTable()) {
    if (!row.platform.empty() && row.platform == platform) return row;
  }
  return TargetTable().back();
}

bool NeuronDevicePresent() {
  std::error_code error;
  return std::filesystem::exists("/dev/neuron0", error);
}

Result<TargetChoice> ChooseTarget(const KnownPlugins& known) {
  TargetChoice choice;
  DENDRITE_ASSIGN_OR_RETURN(choice.name, ExplicitName());
  DENDRITE_ASSIGN_OR_RETURN(choice.plugin_path, GetString(Knob::kPjrtPlugin));
  if (!choice.plugin_path.empty()) {
    DENDRITE_RETURN_IF_ERROR(CheckExists(choice.plugin_path, "DENDRITE_PJRT_PLUGIN"));
    return choice;
  }
  if (choice.name.empty()) {
    const bool trainium =
        known.neuron_device && !EnvironmentOr(kNeuronPluginVariable, known.trainium).empty();
    choice.name = trainium ? kTrainium : kEmbedded;
  }
  DENDRITE_ASSIGN_OR_RETURN(choice.plugin_path, OwnPlugin(choice.name, known));
  return choice;
}

Result<Target> OpenTarget(const TargetChoice& choice, int num_devices) {
  const TargetTraits* row = nullptr;
  if (!choice.name.empty()) {
    row = FindTarget(choice.name);
    if (row == nullptr) return InvalidArgument("there is no target " + choice.name);
  }
  // Other plugins refuse the option that sets the number.
  const bool can_be_told =
      row == nullptr ? num_devices > 1 : row->name == kEmbedded || row->name == kOpaqueName;
  Target target;
  DENDRITE_ASSIGN_OR_RETURN(target.client,
                            Client::Create(choice.plugin_path, can_be_told ? num_devices : 0));
  const PluginInfo& info = target.client->info();
  if (row == nullptr) row = &TargetForPlatform(info.platform_name);
  target.traits = *row;
  if (row->host_visible && info.platform_name != row->platform) {
    // Its pointers would be taken for addresses of this process.
    return InvalidArgument("target " + row->name + " is for plugins of platform " + row->platform +
                           ", and " + info.path + " is for " + info.platform_name +
                           ": unset DENDRITE_TARGET, or set it to opaque");
  }
  if (row->host_visible && !info.has_pointers) {
    return FailedPrecondition("target " + row->name + " needs PJRT_Buffer_UnsafePointer, which " +
                              info.path + " lacks: set DENDRITE_TARGET=opaque");
  }
  target.traits.serialization = target.traits.serialization && info.can_serialize;
  target.traits.kernels_by_name = target.traits.kernels_by_name && info.has_ffi;
  return target;
}

}  // namespace dendrite::pjrt
