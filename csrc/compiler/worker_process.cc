#include "csrc/compiler/worker_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace dendrite::compiler {
namespace {

constexpr int kWorkerSocket = 3;

// Attributes and file actions of posix_spawn, freed at the end of the scope.
struct SpawnSetup {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  explicit SpawnSetup(int socket) {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    // Our threads block all signals; the worker must not.
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGTERM);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    // Sockets of the process that somebody forgot to mark close-on-exec would outlive it in us.
    posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerSocket + 1);
#endif
  }
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
};

}  // namespace

Result<std::shared_ptr<WorkerProcess>> WorkerProcess::Spawn(const std::string& worker_path,
                                                            const std::string& plugin_path) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Unavailable(std::string("cannot make a socket for a compile worker: ") +
                       std::strerror(errno));
  }
  pid_t pid = 0;
  int error;
  {
    const SpawnSetup setup(sockets[1]);
    std::string fd = std::to_string(kWorkerSocket);
    std::string path = worker_path, plugin = plugin_path;
    std::string plugin_flag = "--plugin", socket_flag = "--socket";
    char* argv[] = {path.data(),        plugin_flag.data(), plugin.data(),
                    socket_flag.data(), fd.data(),          nullptr};
    error = ::posix_spawn(&pid, path.c_str(), &setup.actions, &setup.attributes, argv, environ);
  }
  ::close(sockets[1]);
  if (error != 0) {
    ::close(sockets[0]);
    return FailedPrecondition("cannot start the compile worker " + worker_path + ": " +
                              std::strerror(error));
  }
  return std::shared_ptr<WorkerProcess>(new WorkerProcess(pid, sockets[0]));
}

Result<std::shared_ptr<WorkerProcess>> WorkerProcess::Start(const std::string& worker_path,
                                                            const std::string& plugin_path) {
  DENDRITE_ASSIGN_OR_RETURN(auto process, Spawn(worker_path, plugin_path));
  DENDRITE_RETURN_IF_ERROR(process->Greet());
  return process;
}

Status WorkerProcess::Greet() {
  const Result<std::string> frame = ReceiveFrame(socket_);
  if (!frame.ok())
    return Unavailable("the compile worker ended with " + Reap() + " before it was ready");
  DENDRITE_ASSIGN_OR_RETURN(const WorkerHello hello, DecodeWorkerHello(*frame));
  if (hello.version != kWorkerProtocolVersion) {
    return FailedPrecondition(
        "the compile worker speaks protocol " + std::to_string(hello.version) + ", expected " +
        std::to_string(kWorkerProtocolVersion) + ": it belongs to another build");
  }
  return hello.status.WithContext("compile worker");
}

Result<WorkerAnswer> WorkerProcess::Run(const std::string& encoded_job) {
  Status sent = SendFrame(socket_, encoded_job);
  if (sent.ok()) {
    const Result<std::string> frame = ReceiveFrame(socket_);
    if (frame.ok()) return DecodeWorkerAnswer(*frame);
  }
  return Unavailable("the compile worker ended with " + Reap());
}

void WorkerProcess::Kill() {
  MutexLock lock(mutex_);
  if (!reaped_) ::kill(pid_, SIGKILL);
}

std::string WorkerProcess::Reap() {
  MutexLock lock(mutex_);
  if (reaped_) return "an earlier death";
  // It may be alive (its socket broke, or it still unmaps its memory): make sure, then wait. The
  // wait is short, since nothing survives SIGKILL.
  ::kill(pid_, SIGKILL);
  int status = 0;
  pid_t got;
  do {
    got = ::waitpid(pid_, &status, 0);
  } while (got < 0 && errno == EINTR);
  reaped_ = true;
  if (got != pid_) return "an unknown status";  // somebody else in the process reaps all children
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "status " + std::to_string(WEXITSTATUS(status));
}

WorkerProcess::~WorkerProcess() {
  bool alive;
  {
    MutexLock lock(mutex_);
    alive = !reaped_;
  }
  if (alive) (void)Reap();
  ::close(socket_);
}

}  // namespace dendrite::compiler
