// csrc/compiler/worker_protocol.h - what a process and its compile workers say to each other.
//
// A stream socket carries frames: length (8 bytes), then a body. The worker speaks first: one
// WorkerHello (so that a plugin that does not load is an error with a reason, not a dead process).
// Then each WorkerJob is answered by one WorkerAnswer, in order, until the process closes its end.
// Both ends come from one build; the version in the hello catches a worker left over from another.
// Pure functions but for the two that send and receive, which block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"

namespace dendrite::compiler {

struct WorkerHello {
  uint32_t version = 0;
  Status status;  // of loading the plugin
};

struct WorkerJob {
  std::string stablehlo;
  std::string compile_options;
  std::vector<std::string> custom_calls;  // handlers to register before compiling
};

struct WorkerAnswer {
  Status status;
  bool cannot_serialize = false;  // it compiled, but the plugin has no serialisation
  double seconds = 0;
  std::string executable;  // serialised
};

inline constexpr uint32_t kWorkerProtocolVersion = 1;

std::string Encode(const WorkerHello& hello);
std::string Encode(const WorkerJob& job);
std::string Encode(const WorkerAnswer& answer);
// DATA_LOSS if the bytes are not what the other side's Encode made.
Result<WorkerHello> DecodeWorkerHello(std::string_view bytes);
Result<WorkerJob> DecodeWorkerJob(std::string_view bytes);
Result<WorkerAnswer> DecodeWorkerAnswer(std::string_view bytes);

// UNAVAILABLE once the other side is gone; never raises SIGPIPE.
Status SendFrame(int socket, std::string_view body);
Result<std::string> ReceiveFrame(int socket);

}  // namespace dendrite::compiler
