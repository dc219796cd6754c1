// dendrite-compile-worker --plugin PATH --socket FD: compiles StableHLO for the process that
// started it.
//
// Loads nothing but the PJRT plugin. Reads jobs from the socket, answers each, and exits at its
// end. Runs at low priority, is the kernel's first choice when memory runs out, and dies with its
// parent. Modules that call kernels by name compile against stub handlers: only the name matters
// until the program runs, and it never runs here.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "csrc/base/clock.h"
#include "csrc/compiler/worker_protocol.h"
#include "csrc/pjrt/client.h"
#include "xla/ffi/api/c_api.h"

namespace dendrite::compiler {
namespace {

// Answers the compiler's question about the API version; anything else is a bug.
XLA_FFI_Error* StubHandler(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* e = frame->extension_start; e; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return nullptr;
  }
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = "a compile worker does not run programs";
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame->api->XLA_FFI_Error_Create(&args);
}

class Compiler {
 public:
  explicit Compiler(std::shared_ptr<pjrt::Client> client) : client_(std::move(client)) {}

  WorkerAnswer Run(const WorkerJob& job) {
    WorkerAnswer answer;
    const double begin = NowSeconds();
    for (const std::string& name : job.custom_calls) {
      if (registered_.contains(name)) continue;
      answer.status = client_->RegisterFfiHandler(name, reinterpret_cast<void*>(&StubHandler));
      if (!answer.status.ok()) return answer;
      registered_.insert(name);
    }
    const Result<pjrt::Executable> executable =
        client_->Compile(job.stablehlo, job.compile_options);
    answer.seconds = NowSeconds() - begin;
    answer.status = executable.status();
    if (!executable.ok()) return answer;
    Result<std::string> bytes = executable->Serialize();
    answer.status = bytes.status();
    answer.cannot_serialize = answer.status.code() == Code::kUnimplemented;
    if (bytes.ok()) answer.executable = std::move(bytes).value();
    return answer;
  }

 private:
  const std::shared_ptr<pjrt::Client> client_;
  std::set<std::string> registered_;
};

void BecomeBackground() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Ctrl-C is for the training process, which decides what becomes of us.
  std::signal(SIGINT, SIG_IGN);
  ::setpriority(PRIO_PROCESS, 0, 10);
  if (std::FILE* f = std::fopen("/proc/self/oom_score_adj", "we")) {
    std::fputs("800", f);
    std::fclose(f);
  }
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
}

int Serve(const std::string& plugin, int socket) {
  BecomeBackground();
  Result<std::shared_ptr<pjrt::Client>> client = pjrt::Client::Create(plugin);
  const WorkerHello hello{kWorkerProtocolVersion, client.status()};
  if (!SendFrame(socket, Encode(hello)).ok() || !client.ok()) return 1;
  Compiler compiler(*client);
  for (;;) {
    const Result<std::string> frame = ReceiveFrame(socket);
    if (!frame.ok()) return 0;
    const Result<WorkerJob> job = DecodeWorkerJob(*frame);
    WorkerAnswer answer;
    if (job.ok()) {
      answer = compiler.Run(*job);
    } else {
      answer.status = job.status();
    }
    if (!SendFrame(socket, Encode(answer)).ok()) return 0;
  }
}

}  // namespace
}  // namespace dendrite::compiler

int main(int argc, char** argv) {
  if (argc != 5 || std::strcmp(argv[1], "--plugin") != 0 || std::strcmp(argv[3], "--socket") != 0) {
    std::fprintf(stderr, "usage: %s --plugin PATH --socket FD\nStarted by Dendrite, not by hand.\n",
                 argv[0]);
    return 2;
  }
  // Skips the plugin's static destructors, which may hang on its threads.
  ::_exit(dendrite::compiler::Serve(argv[2], std::atoi(argv[4])));
}
