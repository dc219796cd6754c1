#include "csrc/compiler/compile_keys.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "csrc/base/byte_io.h"
#include "csrc/base/sha256.h"
#include "csrc/compiler/lowering_digest.h"  // generated
#include "csrc/tape/key.h"

namespace dendrite::compiler {

std::vector<bool> OutputMask(const tape::Tape& tape, const std::vector<bool>& live) {
  std::vector<bool> mask(tape.storages.size(), false);
  for (const tape::Record& record : tape.records) {
    for (size_t i = 0; i < record.operands.size(); ++i) {
      const int32_t storage = record.operands[i].storage;
      if (storage >= 0 && record.sig->operands[i].written) mask[storage] = true;
    }
  }
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = mask[i] && i < live.size() && live[i];
  return mask;
}

std::string JobKey(const tape::Tape& tape, const lowering::SnippetOptions& options) {
  ByteWriter w;
  w.Put<uint8_t>(options.host_visible);
  w.Put<uint8_t>(options.traits.has_f64);
  w.Put<uint8_t>(options.traits.kernels_by_name);
  w.Put<uint8_t>(options.fixed_choices);
  w.Put<int32_t>(options.traits.num_threads);
  w.PutRaw(tape::CanonicalKey(tape, options.host_visible));
  return w.Take();
}

cache::Key MakeSnippetKey(const std::string& job_key, const std::vector<bool>& mask,
                          const std::string& target_name) {
  std::string bits;
  for (const bool bit : mask) bits += bit ? '1' : '0';
  cache::Key key("snippet");
  key.Add("target", target_name);
  key.Add("lowering", LoweringDigest());
  key.Add("outputs", bits);
  key.Add("tape", job_key);
  return key;
}

std::string ProgramDigest(std::string_view stablehlo) {
  Sha256 hash;
  while (!stablehlo.empty()) {
    std::string_view line = stablehlo.substr(0, stablehlo.find('\n'));
    stablehlo.remove_prefix(std::min(line.size() + 1, stablehlo.size()));
    // The builder writes a location last on its line, and quotes inside of its file name escaped.
    const size_t location = line.rfind(" loc(\"");
    hash.Update(line.ends_with(")") && location != line.npos ? line.substr(0, location) : line);
    hash.Update("\n");
  }
  return ToHex(hash.Finish());
}

cache::Key MakeNeffKey(const std::string& stablehlo_digest, const CompilerIdentity& identity) {
  cache::Key key("neff");
  key.Add("target", identity.target_name);
  key.Add("plugin", identity.plugin_digest);
  key.Add("kernel_abi", identity.plugin_api);
  key.Add("options", identity.compile_options);
  key.Add("cpu", identity.cpu_features);
  key.Add("threads", identity.num_threads);
  key.Add("stablehlo", stablehlo_digest);
  return key;
}

std::string LoweringDigest() { return kLoweringDigest; }

std::string CpuFeatures() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags") || line.starts_with("Features"))
      return line.substr(line.find(':') + 1);
  }
  return "unknown";
}

int NumUsableCores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::vector<std::string> ProcessCommandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::string ProgramName(const std::vector<std::string>& arguments) {
  for (size_t i = 1; i < arguments.size() && arguments[i] != "-c"; ++i) {
    if (arguments[i] == "-m" && i + 1 < arguments.size()) return arguments[i + 1];
    std::error_code error;
    if (arguments[i].starts_with("-") || !std::filesystem::is_regular_file(arguments[i], error)) {
      continue;
    }
    const std::filesystem::path path = std::filesystem::absolute(arguments[i], error);
    return error ? arguments[i] : path.lexically_normal().string();
  }
  std::string line;
  for (const std::string& argument : arguments) line += argument + '\n';
  return line;
}

}  // namespace dendrite::compiler
