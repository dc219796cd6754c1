#include "csrc/base/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

extern char** environ;

namespace dendrite {
namespace {

using enum KnobType;
using enum KnobStage;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// The order of enum Knob.
constexpr KnobInfo kKnobs[] = {
    {Knob::kMode, "DENDRITE_MODE", kChoice, "eager", "eager|adaptive", 0, 0, kStable, nullptr,
     "How operators run at start: each as it is called (`eager`), or gathered on a tape and "
     "compiled in "
     "the background (`adaptive`). `torch.neuron.set_execution_mode` changes it later."},
    {Knob::kTarget, "DENDRITE_TARGET", kChoice, "auto", "auto|embedded|opaque|trainium", 0, 0,
     kStable, nullptr,
     "What to run on: XLA's CPU plugin with memory that the host sees (`embedded`), the same "
     "plugin "
     "treated as an accelerator with memory of its own (`opaque`), or AWS's plugin (`trainium`). "
     "`auto`: "
     "an accelerator whose plugin is found, else `embedded`."},
    {Knob::kPjrtPlugin, "DENDRITE_PJRT_PLUGIN", kString, "", nullptr, 0, 0, kStable, nullptr,
     "Path of the PJRT plugin's shared library. Empty: the target's own."},
    {Knob::kOpaque, "DENDRITE_OPAQUE", kBool, "0", nullptr, 0, 0, kStable, nullptr,
     "Short for `DENDRITE_TARGET=opaque`; an explicit target wins."},
    {Knob::kTier, "DENDRITE_TIER", kChoice, "auto", "auto|0|compiled", 0, 0, kStable, nullptr,
     "`auto`: the planner chooses. `0`: operator by operator only. `compiled`: everything is "
     "compiled at "
     "first sight and waited for."},
    {Knob::kCacheDir, "DENDRITE_CACHE_DIR", kString, "", nullptr, 0, 0, kStable,
     "TORCH_NEURONX_NEFF_CACHE_DIR",
     "Folder of the disk cache, private to the user. Empty: `$XDG_CACHE_HOME/dendrite`, else "
     "`~/.cache/dendrite`. `off`: no disk cache."},
    {Knob::kCacheDiskLimit, "DENDRITE_CACHE_DISK_LIMIT", kBytes, "4G", nullptr, 0, kMax, kStable,
     nullptr, "Most bytes that the disk cache holds; the least recently used entries go first."},
    {Knob::kCacheMemoryLimit, "DENDRITE_CACHE_MEMORY_LIMIT", kBytes, "2G", nullptr, 0, kMax,
     kStable, nullptr, "Most bytes of loaded executables that a process keeps for reuse."},
    {Knob::kSharedCache, "DENDRITE_SHARED_CACHE", kString, "", nullptr, 0, 0, kPlanned, nullptr,
     "Address of a cache shared between hosts (`redis://...`)."},
    {Knob::kCompileWorkers, "DENDRITE_COMPILE_WORKERS", kInt, "auto", nullptr, 0, 256, kStable,
     nullptr,
     "Compiler processes. `0` compiles in a background thread of the process itself. `auto`: half "
     "of the "
     "cores, from 1 to 8."},
    {Knob::kSnippetOps, "DENDRITE_SNIPPET_OPS", kInt, "64", nullptr, 1, 1 << 20, kExperimental,
     nullptr, "Most operators in a snippet before the planner merges neighbours."},
    {Knob::kSnippetBytes, "DENDRITE_SNIPPET_BYTES", kBytes, "64M", nullptr, 1, kMax, kExperimental,
     nullptr, "Most bytes that the operators of one snippet write before it is cut."},
    {Knob::kMergeLevels, "DENDRITE_MERGE_LEVELS", kInt, "2", nullptr, 0, 8, kExperimental, nullptr,
     "How often neighbouring snippets that recur may be merged into larger ones, eight at a time. "
     "`0`: never."},
    {Knob::kMergeCost, "DENDRITE_MERGE_COST", kInt, "2000", nullptr, 0, 1 << 20, kExperimental,
     nullptr,
     "Microseconds that the first compile of a merged snippet is taken to cost for each of its "
     "operators; later ones go by what was measured. Merging waits until it has earned its "
     "compile; "
     "`0`: it does not wait."},
    {Knob::kKernelsByName, "DENDRITE_KERNELS_BY_NAME", kBool, "1", nullptr, 0, 0, kExperimental,
     nullptr,
     "Whether compiled snippets on the embedded target call PyTorch's CPU kernels where those are "
     "faster."},
    {Knob::kProducts, "DENDRITE_PRODUCTS", kChoice, "auto", "auto|compiled|name", 0, 0,
     kExperimental, nullptr,
     "Matrix products of compiled snippets on the embedded target: the compiler's own code "
     "(`compiled`), PyTorch's CPU kernel (`name`), or whichever was measured to be faster for "
     "their "
     "shape (`auto`)."},
    {Knob::kDevices, "DENDRITE_DEVICES", kInt, "auto", nullptr, 1, 1024, kStable, nullptr,
     "Devices of the embedded and opaque targets. `auto`: `LOCAL_WORLD_SIZE`, else 1."},
    {Knob::kLog, "DENDRITE_LOG", kChoice, "warning", "error|warning|info|debug", 0, 0, kStable,
     nullptr, "Least important messages that are printed on standard error."},
    {Knob::kTrace, "DENDRITE_TRACE", kString, "", nullptr, 0, 0, kExperimental, nullptr,
     "File to which a trace of snippets and compiles is written at exit. Empty: none."},
    {Knob::kSimulate, "DENDRITE_SIMULATE", kString, "", nullptr, 0, 0, kPlanned, nullptr,
     "Cost profile that the planner follows instead of measured times."},
};
static_assert(std::size(kKnobs) == static_cast<size_t>(Knob::kCount));

const char* FromEnvironment(const char* name) {
  const char* value = name ? std::getenv(name) : nullptr;
  return value && *value ? value : nullptr;
}

struct Raw {
  std::string name;  // the variable that the text came from
  std::string text;
};

Raw Read(const KnobInfo& knob) {
  if (const char* value = FromEnvironment(knob.name)) return {knob.name, value};
  if (const char* value = FromEnvironment(knob.also)) return {knob.also, value};
  return {knob.name, knob.default_value};
}

bool AllowsAuto(const KnobInfo& knob) { return std::strcmp(knob.default_value, "auto") == 0; }

std::string Expected(const KnobInfo& knob) {
  const std::string or_auto = AllowsAuto(knob) ? ", or auto" : "";
  switch (knob.type) {
    case kBool:
      return "0 or 1";
    case kInt:
      return "an integer from " + std::to_string(knob.min) + " to " + std::to_string(knob.max) +
             or_auto;
    case kBytes:
      return "a number of bytes such as 512M or 4G";
    case kChoice: {
      std::string words = knob.choices;
      for (size_t at = 0; (at = words.find('|', at)) != std::string::npos;)
        words.replace(at, 1, ", ");
      return "one of " + words;
    }
    case kString:
      break;
  }
  return "text";
}

Status Bad(const KnobInfo& knob, const Raw& raw) {
  return InvalidArgument(raw.name + ": expected " + Expected(knob) + ", got \"" + raw.text + "\"");
}

// Shift of a byte suffix at the end of `text`, which is removed.
int TakeSuffix(std::string_view& text) {
  if (text.empty()) return 0;
  static constexpr std::string_view kSuffixes = "KMGT";
  const char last = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
  const size_t i = kSuffixes.find(last);
  if (i == std::string_view::npos) return 0;
  text.remove_suffix(1);
  return 10 * static_cast<int>(i + 1);
}

Result<int64_t> ParseInt(const KnobInfo& knob, const Raw& raw) {
  if (AllowsAuto(knob) && raw.text == "auto") return kAuto;
  std::string_view text = raw.text;
  const int shift = knob.type == kBytes ? TakeSuffix(text) : 0;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return Bad(knob, raw);
  if (value < 0 || value > kMax >> shift) return Bad(knob, raw);
  value <<= shift;
  if (value < knob.min || value > knob.max) return Bad(knob, raw);
  return value;
}

Result<bool> ParseBool(const KnobInfo& knob, const Raw& raw) {
  std::string text = raw.text;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  return Bad(knob, raw);
}

Result<int> ParseChoice(const KnobInfo& knob, const Raw& raw) {
  std::string_view rest = knob.choices;
  for (int i = 0;; ++i) {
    const size_t bar = rest.find('|');
    if (rest.substr(0, bar) == raw.text) return i;
    if (bar == std::string_view::npos) return Bad(knob, raw);
    rest.remove_prefix(bar + 1);
  }
}

const char* StageName(KnobStage stage) {
  switch (stage) {
    case kStable:
      return "stable";
    case kExperimental:
      return "experimental";
    case kPlanned:
      break;
  }
  return "planned";
}

}  // namespace

const KnobInfo& GetKnobInfo(Knob knob) { return kKnobs[static_cast<size_t>(knob)]; }

bool IsSet(Knob knob) {
  const KnobInfo& info = GetKnobInfo(knob);
  return FromEnvironment(info.name) || FromEnvironment(info.also);
}

Result<bool> GetBool(Knob knob) {
  const KnobInfo& info = GetKnobInfo(knob);
  return ParseBool(info, Read(info));
}

Result<int64_t> GetInt(Knob knob) {
  const KnobInfo& info = GetKnobInfo(knob);
  return ParseInt(info, Read(info));
}

Result<int> GetChoice(Knob knob) {
  const KnobInfo& info = GetKnobInfo(knob);
  return ParseChoice(info, Read(info));
}

Result<std::string> GetString(Knob knob) {
  const KnobInfo& info = GetKnobInfo(knob);
  Raw raw = Read(info);
  if (info.type == kChoice) DENDRITE_RETURN_IF_ERROR(ParseChoice(info, raw).status());
  return std::move(raw.text);
}

Status CheckConfig() {
  for (const KnobInfo& knob : kKnobs) {
    const Raw raw = Read(knob);
    if (knob.stage == kPlanned && IsSet(knob.id)) {
      return Unimplemented(raw.name + " is planned, and this version does not know it: unset it");
    }
    switch (knob.type) {
      case kBool:
        DENDRITE_RETURN_IF_ERROR(ParseBool(knob, raw).status());
        break;
      case kInt:
      case kBytes:
        DENDRITE_RETURN_IF_ERROR(ParseInt(knob, raw).status());
        break;
      case kChoice:
        DENDRITE_RETURN_IF_ERROR(ParseChoice(knob, raw).status());
        break;
      case kString:
        break;
    }
  }
  return Status::Ok();
}

std::vector<std::string> UnknownKnobs() {
  std::vector<std::string> unknown;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view pair = *entry;
    const std::string_view name = pair.substr(0, pair.find('='));
    // DENDRITE_TEST_* tell the test programs where things are; the others steer test plugins.
    if (!name.starts_with("DENDRITE_") || name.starts_with("DENDRITE_TEST_") ||
        name.starts_with("DENDRITE_SHIM_") || name.starts_with("DENDRITE_FAKE_") ||
        name == "DENDRITE_SOURCE_DIR") {
      continue;
    }
    const bool known = std::any_of(std::begin(kKnobs), std::end(kKnobs),
                                   [&](const KnobInfo& knob) { return name == knob.name; });
    if (!known) unknown.emplace_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

std::string ConfigMarkdown() {
  std::string out =
      "# Environment variables\n\n"
      "Generated from the table in `csrc/base/config.cc`; do not edit. Variables are read when "
      "they are "
      "first needed. A value of the wrong form is an error that says what was expected.\n\n"
      "| variable | values | default | stage | meaning |\n|---|---|---|---|---|\n";
  for (const KnobInfo& knob : kKnobs) {
    const std::string_view value = knob.default_value;
    out += std::string("| `") + knob.name + "` | " + Expected(knob) + " | " +
           (value.empty() ? "empty" : "`" + std::string(value) + "`") + " | " +
           StageName(knob.stage) + " | " + knob.help;
    if (knob.also) out += std::string(" `") + knob.also + "` means the same.";
    out += " |\n";
  }
  return out;
}

}  // namespace dendrite
