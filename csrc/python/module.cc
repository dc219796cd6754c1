// The extension module torch_dendrite._C: what the thin Python package calls.
#include <torch/extension.h>

#include "csrc/aten/capture.h"
#include "csrc/aten/registration.h"
#include "csrc/aten/sparse.h"
#include "csrc/base/config.h"
#include "csrc/compiler/compile_service.h"
#include "csrc/device/error.h"
#include "csrc/device/generator.h"
#include "csrc/device/hooks.h"
#include "csrc/device/memory_interface.h"
#include "csrc/device/runtime.h"
#include "csrc/device/storage.h"
#include "csrc/interpreter/kernels_by_name.h"
#include "csrc/interpreter/replay.h"
#include "csrc/lowering/registry.h"
#include "csrc/python/profiler.h"
#include "csrc/python/program.h"
#include "csrc/python/region.h"
#include "csrc/python/site.h"

namespace dendrite::python {
namespace {

namespace py = pybind11;
using device::Runtime;
using NoGil = py::call_guard<py::gil_scoped_release>;

engine::Stream& StreamOf(int index) {
  return Runtime::Get().stream(index < 0 ? device::CurrentDevice() : index);
}

py::dict Stats() {
  py::dict out;
  py::dict tiers, hits, fallbacks;
  if (!Runtime::Started()) Runtime::Get();
  Runtime& runtime = Runtime::Get();
  engine::Counters& c = runtime.counters();
  for (int tier = 0; tier < engine::kMaxTier; ++tier) {
    const int64_t n = c.ops_by_tier[static_cast<size_t>(tier)].load();
    if (n > 0 || tier < 2) tiers[py::int_(tier)] = n;
  }
  tiers["host"] = c.ops_host.load();
  compiler::CompileStats compile;
  if (runtime.compiler() != nullptr) compile = runtime.compiler()->stats();
  for (const auto& [name, n] : c.fallback_ops()) fallbacks[py::str(name)] = n;
  hits["memory"] = compile.hits_memory;
  hits["disk"] = compile.hits_disk;
  hits["job"] = compile.hits_job;
  hits["shared"] = compile.hits_shared;
  out["ops_captured"] = c.ops_captured.load();
  out["ops_by_tier"] = tiers;
  out["snippets_launched"] = c.snippets_launched.load();
  out["kernels_by_name"] = c.kernels_by_name.load();
  out["compiles"] = compile.compiles;
  out["compile_seconds"] = compile.compile_seconds;
  out["compile_wait_seconds"] = static_cast<double>(c.compile_wait_ns.load()) * 1e-9;
  out["cache_hits"] = hits;
  out["cache_misses"] = compile.misses;
  out["fallback_ops"] = fallbacks;
  out["compiles_pending"] = compile.queued + compile.running;
  out["compile_failures"] = compile.failures;
  out["cache_corrupt_entries"] = compile.corrupt_entries;
  out["workers_started"] = compile.workers_started;
  out["launch_errors"] = c.launch_errors.load();
  return out;
}

void ResetStats() {
  Runtime& runtime = Runtime::Get();
  runtime.counters().Reset();
  if (runtime.compiler() != nullptr) runtime.compiler()->ResetStats();
}

py::list TraceStop() {
  Runtime& runtime = Runtime::Get();
  py::list out;
  const auto add = [&out](const engine::TraceEvent& e) {
    py::dict d;
    d["lane"] = e.lane;
    d["name"] = e.name;
    d["begin"] = e.begin;
    d["end"] = e.end;
    d["site"] = e.site;
    d["tier"] = e.tier;
    out.append(d);
  };
  for (const auto& e : runtime.trace().Stop()) add(e);
  if (runtime.compiler() != nullptr) {
    for (const auto& e : runtime.compiler()->TakeEvents()) {
      add({"compile-" + std::to_string(e.worker), e.label, e.begin, e.end, e.label, 1});
    }
  }
  return out;
}

py::dict Info() {
  Runtime& runtime = Runtime::Get();
  py::dict out;
  const auto& traits = runtime.traits();
  out["target"] = traits.name;
  out["note"] = traits.note;
  out["host_visible"] = traits.host_visible;
  out["has_f64"] = traits.has_f64;
  out["donation"] = traits.donation;
  out["serialization"] = traits.serialization;
  out["kernels_by_name"] = traits.kernels_by_name;
  out["num_devices"] = Runtime::DeviceCount();
  if (runtime.client() != nullptr) {
    const auto& info = runtime.client()->info();
    out["plugin"] = info.path;
    out["platform"] = info.platform_name;
    out["platform_version"] = info.platform_version;
    out["api_version"] = std::to_string(info.api_major) + "." + std::to_string(info.api_minor);
  }
  // Empty: there is none.
  out["cache_dir"] = device::ValueOrThrow(compiler::CompileServiceOptionsFromConfig()).cache_dir;
  return out;
}

// Every variable: its default, and its text in the environment.
py::list Knobs() {
  py::list out;
  for (int i = 0; i < static_cast<int>(Knob::kCount); ++i) {
    const auto knob = static_cast<Knob>(i);
    py::dict d;
    d["name"] = GetKnobInfo(knob).name;
    d["default"] = GetKnobInfo(knob).default_value;
    d["is_set"] = IsSet(knob);
    const char* text = std::getenv(GetKnobInfo(knob).name);
    if ((text == nullptr || *text == 0) && GetKnobInfo(knob).also != nullptr) {
      text = std::getenv(GetKnobInfo(knob).also);
    }
    d["value"] = text == nullptr ? "" : text;
    out.append(d);
  }
  return out;
}

const char* OwnerName(aten::Owner owner) {
  static constexpr const char* kNames[] = {"captured", "native", "composite", "fallback"};
  return kNames[static_cast<int>(owner)];
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.def("init",
        [](const std::string& embedded, const std::string& trainium, const std::string& worker) {
          device::Paths paths;
          paths.plugins.embedded = embedded;
          paths.plugins.trainium = trainium;
          paths.plugins.neuron_device = pjrt::NeuronDevicePresent();
          paths.worker = worker;
          Runtime::SetPaths(std::move(paths));
          Runtime::SetInterpreter(interpreter::GetInterpreter(), &interpreter::DestroyHostStorage);
          Runtime::SetKernels(interpreter::KernelHandlers());
          Runtime::SetSiteFunction(&SiteOf);
          aten::SetSiteHook(&CurrentSite);
          device::RegisterHooks();
          RegisterProfiler();
          aten::RegisterCapturedOperators();
          aten::RegisterSparseOperators();
        });
  BindProgram(m);
  m.def("shutdown", &Runtime::Shutdown, NoGil());
  m.def("started", &Runtime::Started);
  m.def("device_count", &Runtime::DeviceCount);
  m.def("current_device", &device::CurrentDevice);
  m.def("set_device", &device::SetCurrentDevice);
  m.def(
      "synchronize", [](int index) { device::ThrowIfError(StreamOf(index).Synchronize()); },
      NoGil());
  m.def("set_default_mode",
        [](int mode) { device::SetDefaultMode(static_cast<engine::Mode>(mode)); });
  m.def("default_mode", [] { return static_cast<int>(device::DefaultMode()); });
  m.def("thread_mode", &device::ThreadMode);
  m.def("set_thread_mode", &device::SetThreadMode);
  m.def("reset_thread_mode", &device::ResetThreadMode);
  m.def("begin_region", &BeginRegion, NoGil());
  m.def("end_region", &EndRegion, NoGil());
  m.def("abandon_region", &AbandonRegion, NoGil());
  m.def("stats", &Stats);
  m.def("reset_stats", &ResetStats);
  m.def("explain", [] { return StreamOf(-1).Explain(); });
  m.def("empty_cache", &device::EmptyCaches, NoGil());
  m.def(
      "wait_for_compiles",
      [](double seconds) {
        auto* compiler = Runtime::Get().compiler();
        return compiler == nullptr || compiler->WaitIdle(seconds);
      },
      NoGil());
  m.def("trace_start", [] { Runtime::Get().trace().Start(); });
  m.def("trace_stop", &TraceStop);
  m.def("info", &Info);
  m.def("default_generator",
        [](int index) { return device::DefaultGenerator(static_cast<c10::DeviceIndex>(index)); });
  m.def("config_markdown", &ConfigMarkdown);
  m.def("unknown_knobs", &UnknownKnobs);
  m.def("knobs", &Knobs);
  // Without starting the device.
  m.def("cache_dir",
        [] { return device::ValueOrThrow(compiler::CompileServiceOptionsFromConfig()).cache_dir; });
  m.def("lowered_ops", &lowering::RegisteredOps);
  m.def("operator_owners", [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& op : aten::OperatorOwners()) out.emplace_back(op.name, OwnerName(op.owner));
    return out;
  });
}

}  // namespace dendrite::python
