#include "csrc/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "csrc/base/config.h"
#include "csrc/base/mutex.h"

namespace dendrite {
namespace {

constexpr int kUnset = -1;
std::atomic<int> g_level{kUnset};

struct SinkSlot {
  Mutex mutex;
  LogSink sink DENDRITE_GUARDED_BY(mutex);
};

SinkSlot& Slot() {
  static SinkSlot* slot = new SinkSlot;  // never destroyed: threads may log during exit
  return *slot;
}

// A bad DENDRITE_LOG is reported with all other bad knobs by CheckConfig; here it means the
// default.
int LevelFromConfig() {
  const auto level = GetChoice(Knob::kLog);
  return level.ok() ? *level : static_cast<int>(LogLevel::kWarning);
}

const char* LevelName(LogLevel level) {
  static constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  return kNames[static_cast<int>(level)];
}

}  // namespace

bool LogEnabled(LogLevel level) {
  int current = g_level.load(std::memory_order_relaxed);
  if (current == kUnset) {
    current = LevelFromConfig();
    g_level.store(current, std::memory_order_relaxed);
  }
  return static_cast<int>(level) <= current;
}

void SetLogLevel(LogLevel level) {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogSink SetLogSink(LogSink sink) {
  SinkSlot& slot = Slot();
  MutexLock lock(slot.mutex);
  std::swap(slot.sink, sink);
  return sink;
}

void WriteLog(LogLevel level, const char* file, int line, const std::string& text) {
  LogSink sink;
  {
    SinkSlot& slot = Slot();
    MutexLock lock(slot.mutex);
    sink = slot.sink;
  }
  if (sink) return sink(level, text);
  std::string out = std::string("dendrite ") + LevelName(level) + ": " + text;
  if (level == LogLevel::kDebug) {
    const char* slash = std::strrchr(file, '/');
    out += std::string(" [") + (slash ? slash + 1 : file) + ":" + std::to_string(line) + "]";
  }
  out += '\n';
  // One write, so that lines of several threads and processes do not mix.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, out.data(), out.size());
}

}  // namespace dendrite
