#include "csrc/compiler/job_table.h"

#include <algorithm>

namespace dendrite::compiler {
namespace {

bool Includes(const std::vector<bool>& larger, const std::vector<bool>& smaller) {
  if (larger.size() != smaller.size()) return false;
  for (size_t i = 0; i < smaller.size(); ++i) {
    if (smaller[i] && !larger[i]) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<CompileJob> JobTable::Lookup(const std::string& key,
                                             const std::vector<bool>& mask) {
  const auto it = variants_.find(key);
  if (it == variants_.end()) return nullptr;
  Variant* best = nullptr;
  for (Variant& variant : it->second) {
    if (!Includes(variant.mask, mask)) continue;
    if (!best || (variant.job->done() && !best->job->done())) best = &variant;
  }
  if (!best) return nullptr;
  best->last_use = ++uses_;
  return best->job;
}

void JobTable::Insert(const std::string& key, std::vector<bool> mask,
                      std::shared_ptr<CompileJob> job) {
  variants_[key].push_back(Variant{std::move(mask), std::move(job), -1, ++uses_});
}

void JobTable::SetBytes(const std::string& key, const CompileJob* job, int64_t bytes) {
  const auto it = variants_.find(key);
  if (it == variants_.end()) return;
  for (Variant& variant : it->second) {
    if (variant.job.get() != job) continue;
    bytes_ += bytes - std::max<int64_t>(variant.bytes, 0);
    variant.bytes = bytes;
  }
  while (bytes_ > limit_) EvictOldest();
}

// Linear: evictions are rare, and the table has at most thousands of entries.
void JobTable::EvictOldest() {
  auto oldest_key = variants_.end();
  size_t oldest = 0;
  for (auto it = variants_.begin(); it != variants_.end(); ++it) {
    for (size_t i = 0; i < it->second.size(); ++i) {
      const Variant& variant = it->second[i];
      if (variant.bytes < 0) continue;
      if (oldest_key == variants_.end() || variant.last_use < oldest_key->second[oldest].last_use) {
        oldest_key = it;
        oldest = i;
      }
    }
  }
  std::vector<Variant>& list = oldest_key->second;
  bytes_ -= list[oldest].bytes;
  list.erase(list.begin() + static_cast<int64_t>(oldest));
  if (list.empty()) variants_.erase(oldest_key);
}

}  // namespace dendrite::compiler
