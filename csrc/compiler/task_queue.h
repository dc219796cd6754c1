// csrc/compiler/task_queue.h - a blocking queue, highest priority first, equal ones in order of
// arrival.
//
// Thread safe. After Close, Pop gives nothing more and returns at once.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "csrc/base/mutex.h"

namespace dendrite::compiler {

template <typename T>
class TaskQueue {
 public:
  // Items pushed after Close are dropped.
  void Push(double priority, T item) {
    {
      MutexLock lock(mutex_);
      if (closed_) return;
      items_.emplace(std::pair(-priority, next_++), std::move(item));
    }
    changed_.NotifyOne();
  }
  // Blocks for an item, at most `seconds` (< 0: without bound). A default T (a null pointer) if the
  // time ran out or the queue is closed.
  T Pop(double seconds = -1) {
    MutexLock lock(mutex_);
    while (items_.empty() && !closed_) {
      if (seconds < 0) {
        changed_.Wait(lock);
      } else if (!changed_.WaitFor(lock, seconds)) {
        break;
      }
    }
    if (closed_ || items_.empty()) return T();
    T item = std::move(items_.begin()->second);
    items_.erase(items_.begin());
    return item;
  }
  void Close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    changed_.NotifyAll();
  }
  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  // Destroys what is left, outside of the lock.
  void Clear() {
    std::map<std::pair<double, uint64_t>, T> rest;
    MutexLock lock(mutex_);
    rest.swap(items_);
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ DENDRITE_GUARDED_BY(mutex_) = false;
  uint64_t next_ DENDRITE_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<double, uint64_t>, T> items_ DENDRITE_GUARDED_BY(mutex_);
};

}  // namespace dendrite::compiler
