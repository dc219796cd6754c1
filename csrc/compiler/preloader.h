// csrc/compiler/preloader.h - loads, ahead of use, the executables that the program's last run had.
//
// A run leaves the list of what it loaded in the cache, under the program's name. The next one
// loads that list on a thread of its own, in the order of first use, while the program is still
// importing and building its model. A loaded executable is a guess: it becomes a job's when the
// job's key asks for it, and what nobody asked for in time is dropped. A list that is missing,
// foreign or stale costs a miss each, never an error.
//
// Take and Note: any thread. Start: once. Stop: before the destructor, when no thread calls any
// more; writes this run's list.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "csrc/base/mutex.h"
#include "csrc/cache/key.h"
#include "csrc/cache/store.h"
#include "csrc/compiler/compile_keys.h"
#include "csrc/compiler/snippet_cache.h"
#include "csrc/pjrt/client.h"

namespace dendrite::compiler {

class Preloader {
 public:
  struct Loaded {
    pjrt::Executable executable;
    cache::Entry entry;
  };
  using AskIdentity = std::function<Result<const CompilerIdentity*>()>;

  // `cache` must outlive it. No program, or no cache: nothing is loaded or noted.
  Preloader(std::shared_ptr<pjrt::Client> client, SnippetCache* cache, const std::string& program,
            const std::string& target_name);
  ~Preloader();

  // `ask` is called only if there is a list: the answer may cost the reading of the whole plugin.
  void Start(const AskIdentity& ask);
  // The executable of a NEFF key, if it was loaded; waits for one that is being loaded. One that is
  // still to come is left to the caller.
  std::optional<Loaded> Take(const cache::Key& key);
  // This run uses the program with this digest (ProgramDigest).
  void Note(const std::string& digest);
  void Stop();
  // True once the whole list was gone through; false if it takes longer than `seconds`.
  bool WaitUntilLoaded(double seconds);

 private:
  void Loop();
  std::optional<cache::Key> Next();

  const std::shared_ptr<pjrt::Client> client_;
  SnippetCache* const cache_;
  std::optional<cache::Key> list_key_;  // constant; none: see the constructor
  std::thread thread_;

  Mutex mutex_;
  CondVar changed_;
  bool stop_ DENDRITE_GUARDED_BY(mutex_) = false;
  std::vector<std::string> known_ DENDRITE_GUARDED_BY(mutex_);  // the last run's list
  std::deque<cache::Key> wanted_ DENDRITE_GUARDED_BY(mutex_);
  std::string loading_ DENDRITE_GUARDED_BY(mutex_);  // full key; empty: none
  std::unordered_map<std::string, Loaded> loaded_ DENDRITE_GUARDED_BY(mutex_);  // by full key
  std::vector<std::string> used_ DENDRITE_GUARDED_BY(mutex_);  // digests, in order of first use
  std::unordered_set<std::string> used_set_ DENDRITE_GUARDED_BY(mutex_);
};

}  // namespace dendrite::compiler
