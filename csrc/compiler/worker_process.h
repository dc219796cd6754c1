// csrc/compiler/worker_process.h - one dendrite-compile-worker and the socket to it.
//
// Run is for one thread at a time; Kill may be called from any other and makes a blocked Run
// return. The process is killed and reaped on destruction. It inherits no descriptor but its socket
// and standard error.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "csrc/base/mutex.h"
#include "csrc/base/status.h"
#include "csrc/compiler/worker_protocol.h"

namespace dendrite::compiler {

class WorkerProcess {
 public:
  // Starts the program and waits for its greeting. An error is the plugin's own if it does not
  // load, or says that the worker cannot be started; UNAVAILABLE if it died.
  static Result<std::shared_ptr<WorkerProcess>> Start(const std::string& worker_path,
                                                      const std::string& plugin_path);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // The worker's answer, whose status may be an error; an error of Run itself means that the worker
  // is no more.
  Result<WorkerAnswer> Run(const std::string& encoded_job);
  Status Greet();
  void Kill();
  pid_t pid() const { return pid_; }

  // The two steps of Start, for a caller that must be able to Kill in between.
  static Result<std::shared_ptr<WorkerProcess>> Spawn(const std::string& worker_path,
                                                      const std::string& plugin_path);

 private:
  WorkerProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  // "signal 9" or "status 1": how it ended. Reaps it.
  std::string Reap();

  const pid_t pid_;
  const int socket_;
  Mutex mutex_;
  bool reaped_ DENDRITE_GUARDED_BY(mutex_) = false;  // after that the pid may be another process's
};

}  // namespace dendrite::compiler
