// csrc/base/config.h - every environment variable that Dendrite reads, in one table.
//
// A getter reads the environment when it is called, so a value set from Python after the import and
// before the first use counts; callers that must not change their mind keep what they got. A value
// of the wrong form is an INVALID_ARGUMENT that says what was expected and what was found; nothing
// is silently ignored. docs/config.md is generated from the table by ConfigMarkdown(). Thread safe
// as long as nobody calls setenv meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/base/status.h"

namespace dendrite {

enum class Knob : uint8_t {
  kMode,
  kTarget,
  kPjrtPlugin,
  kOpaque,
  kTier,
  kCacheDir,
  kCacheDiskLimit,
  kCacheMemoryLimit,
  kSharedCache,
  kCompileWorkers,
  kSnippetOps,
  kSnippetBytes,
  kMergeLevels,
  kMergeCost,
  kKernelsByName,
  kProducts,
  kDevices,
  kLog,
  kTrace,
  kSimulate,
  kCount,
};

enum class KnobType : uint8_t {
  kBool,    // 0, 1, false, true, no, yes, off, on
  kInt,     // decimal, within [min, max]; "auto" where the default is "auto"
  kBytes,   // an integer with an optional K, M, G or T (powers of 1024)
  kChoice,  // one of the listed words
  kString,  // any text
};

enum class KnobStage : uint8_t { kStable, kExperimental, kPlanned };

struct KnobInfo {
  Knob id;
  const char* name;
  KnobType type;
  const char* default_value;
  const char* choices;  // kChoice: words separated by '|'
  int64_t min, max;     // kInt, kBytes
  KnobStage stage;
  const char*
      also;  // another system's variable that means the same, read if ours is unset; or null
  const char* help;
};

const KnobInfo& GetKnobInfo(Knob knob);

// True if the variable (or its other name) is in the environment and not empty.
bool IsSet(Knob knob);

// REQUIRES for each getter: the knob is of that type.
Result<bool> GetBool(Knob knob);
// kInt and kBytes. "auto" gives kAuto.
inline constexpr int64_t kAuto = -1;
Result<int64_t> GetInt(Knob knob);
// Position of the value in the knob's list of words.
Result<int> GetChoice(Knob knob);
// kString and kChoice: the text.
Result<std::string> GetString(Knob knob);

// The first bad value among all knobs, or OK. Knobs that are planned but not built must not be set.
Status CheckConfig();
// Variables named DENDRITE_* in the environment that no knob has: most likely misspelt.
std::vector<std::string> UnknownKnobs();
std::string ConfigMarkdown();

}  // namespace dendrite
