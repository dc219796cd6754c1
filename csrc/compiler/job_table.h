// csrc/compiler/job_table.h - the jobs of this process, found by tape and by what must come out.
//
// Keys are compared in full. A job serves a wish for fewer outputs than it has. Finished jobs are
// bounded by bytes, least recently used first; a job that is not finished stays. Forgetting a job
// only ends its reuse: who holds it keeps it. Not thread safe: the owner has the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "csrc/compiler/compile_service.h"

namespace dendrite::compiler {

class JobTable {
 public:
  explicit JobTable(int64_t limit_bytes) : limit_(limit_bytes) {}

  // A job for `key` whose outputs include `mask`, or null. Prefers finished ones.
  std::shared_ptr<CompileJob> Lookup(const std::string& key, const std::vector<bool>& mask);
  void Insert(const std::string& key, std::vector<bool> mask, std::shared_ptr<CompileJob> job);
  // The job has finished and holds this many bytes. May forget others, and itself if it is too
  // large.
  void SetBytes(const std::string& key, const CompileJob* job, int64_t bytes);

  int64_t bytes() const { return bytes_; }

 private:
  struct Variant {
    std::vector<bool> mask;
    std::shared_ptr<CompileJob> job;
    int64_t bytes = -1;  // -1: not finished
    uint64_t last_use = 0;
  };
  void EvictOldest();

  const int64_t limit_;
  int64_t bytes_ = 0;
  uint64_t uses_ = 0;
  std::unordered_map<std::string, std::vector<Variant>> variants_;
};

}  // namespace dendrite::compiler
