// csrc/compiler/background_thread.h - how this folder starts threads.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace dendrite::compiler {

// A thread that takes no signals: those are the program's business (Python expects them on its main
// thread), and a handler must not run on a stack that it does not know.
template <typename F>
std::thread StartBackgroundThread(const char* name, F body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace dendrite::compiler
