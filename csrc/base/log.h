// csrc/base/log.h - messages for people, on standard error.
//
//   DENDRITE_LOG(kWarning) << "cache entry " << path << " is truncated";
//
// What is printed is decided by DENDRITE_LOG (error, warning, info or debug; default warning), read
// once. Below the level, operands are not evaluated. Lines are written whole, from any thread. A
// sink set for tests sees every message at or above the level instead of standard error.
#pragma once

#include <functional>
#include <sstream>
#include <string>

namespace dendrite {

enum class LogLevel : int { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

bool LogEnabled(LogLevel level);
void SetLogLevel(LogLevel level);
// Writes one line: "dendrite warning: text [file.cc:12]" (the place only for debug messages).
void WriteLog(LogLevel level, const char* file, int line, const std::string& text);

using LogSink = std::function<void(LogLevel, const std::string& text)>;
// Replaces standard error; an empty sink restores it. Returns the sink that was there.
LogSink SetLogSink(LogSink sink);

class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line)
      : level_(level), file_(file), line_(line) {}
  ~LogMessage() { WriteLog(level_, file_, line_, stream_.str()); }
  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

// Turns the stream into void, so that both arms of the macro's ?: have one type. & binds looser
// than <<.
struct LogVoid {
  void operator&(std::ostream&) const {}
};

#define DENDRITE_LOG(level)                            \
  !::dendrite::LogEnabled(::dendrite::LogLevel::level) \
      ? static_cast<void>(0)                           \
      : ::dendrite::LogVoid() &                        \
            ::dendrite::LogMessage(::dendrite::LogLevel::level, __FILE__, __LINE__).stream()

}  // namespace dendrite
