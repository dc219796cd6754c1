// csrc/base/mutex.h - std::mutex and std::condition_variable that clang's thread safety analysis
// knows.
//
// A MutexLock holds from construction to destruction. CondVar::Wait* give the lock up while waiting
// and hold it again on return, as usual; a wake-up may be spurious, so callers loop on their
// condition.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "csrc/base/thread_annotations.h"

namespace dendrite {

class DENDRITE_CAPABILITY("mutex") Mutex {
 public:
  void Lock() DENDRITE_ACQUIRE() { mutex_.lock(); }
  void Unlock() DENDRITE_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class DENDRITE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DENDRITE_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() DENDRITE_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

class CondVar {
 public:
  void Wait(MutexLock& lock) { cv_.wait(lock.lock_); }
  // False if the time ran out.
  bool WaitFor(MutexLock& lock, double seconds) {
    return cv_.wait_for(lock.lock_, std::chrono::duration<double>(seconds)) ==
           std::cv_status::no_timeout;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace dendrite
