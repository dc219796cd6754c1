// csrc/pjrt/target.h - which plugin to run on, and what may be assumed of it.
//
// A target is a row of traits and a plugin's path. Choosing reads the environment and loads
// nothing, so that it may be done at import; opening loads the plugin, makes the client and takes
// back what the plugin does not offer. Rules, first match wins:
//   1. DENDRITE_TARGET, unless it is `auto`; 2. DENDRITE_OPAQUE=1: `opaque`; 3.
//   DENDRITE_PJRT_PLUGIN: the row of the plugin's platform, known once it is open, and `generic`
//   for an unknown one;
//   4. `trainium`, if its plugin is known and a Neuron device is present; 5. `embedded`.
// DENDRITE_PJRT_PLUGIN names the library whatever the row. Stateless; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/pjrt/client.h"

namespace dendrite::pjrt {

struct TargetTraits {
  std::string name;
  std::string platform;       // the platform name of the plugins that the row is for; empty: any
  bool host_visible = false;  // the host reads and writes device memory through pointers
  bool has_f64 = false;
  bool donation = false;         // tf.aliasing_output reuses the argument's memory
  bool serialization = false;    // executables can be kept
  bool kernels_by_name = false;  // custom calls to handlers of this process
  // Oldest API that the row was tried with. An older plugin is still tried: what matters is which
  // calls it has, and an error names the one that it lacks.
  int min_api_minor = 0;
  std::string compile_options;  // serialised CompileOptionsProto; empty: one replica, one partition
  std::string note;             // what a user should know; empty: nothing
};

// All rows; the last one, `generic`, is the cautious one for plugins that no row is for.
const std::vector<TargetTraits>& TargetTable();
// Null if there is no row of that name.
const TargetTraits* FindTarget(std::string_view name);
// The row for plugins of `platform`, `generic` if none is.
const TargetTraits& TargetForPlatform(std::string_view platform);

// Where the caller (Python, which knows its packages) found things.
struct KnownPlugins {
  std::string embedded;  // XLA's CPU plugin; empty: not installed
  std::string trainium;  // libneuronpjrt.so; empty: not installed. NEURON_PJRT_PLUGIN overrides it
  bool neuron_device = false;  // a Neuron device file exists
};
// True where the kernel driver has made a Neuron device.
bool NeuronDevicePresent();

struct TargetChoice {
  std::string name;  // a row's name; empty: by the plugin's platform
  std::string plugin_path;
};
Result<TargetChoice> ChooseTarget(const KnownPlugins& known);

struct Target {
  TargetTraits traits;
  std::shared_ptr<Client> client;
};
// `num_devices` <= 0: the plugin's default. Only the CPU plugins can be told.
Result<Target> OpenTarget(const TargetChoice& choice, int num_devices = 0);

}  // namespace dendrite::pjrt
