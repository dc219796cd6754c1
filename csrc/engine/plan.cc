#include "csrc/engine/plan.h"

#include "csrc/engine/chunk.h"

namespace dendrite::engine {
namespace {

uint64_t HashWords(const std::vector<uint64_t>& words) {
  uint64_t h = 0x9e3779b97f4a7c15u ^ words.size();
  for (uint64_t w : words) {
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return h;
}

bool Matches(const Plan& plan, const std::vector<int64_t>& offsets) {
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (!plan.lift_offset[i] && plan.offsets[i] != offsets[i]) return false;
  }
  return true;
}

}  // namespace

void Plan::Sample(int tier, double seconds) {
  choice.Sample(tier, seconds);
  const auto t = static_cast<size_t>(tier);
  best[t].store(choice.Best(tier), std::memory_order_relaxed);
  runs[t].store(choice.runs(tier), std::memory_order_relaxed);
}

std::shared_ptr<Plan> PlanTable::Touch(const Chunk& chunk, const std::vector<bool>* varies) {
  const uint64_t hash = HashWords(chunk.key);
  Site* site = nullptr;
  auto [begin, end] = sites_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second.key == chunk.key) site = &it->second;
  }
  if (site == nullptr) {
    recency_.push_front(hash);
    auto it = sites_.emplace(
        hash, Site{chunk.key,
                   chunk.offsets,
                   varies != nullptr ? *varies : std::vector<bool>(chunk.offsets.size(), false),
                   {},
                   recency_.begin()});
    site = &it->second;
  } else {
    recency_.splice(recency_.begin(), recency_, site->recency);
  }
  for (size_t i = 0; i < chunk.offsets.size(); ++i) {
    if (site->last_offsets[i] != chunk.offsets[i]) site->varies[i] = true;
  }
  site->last_offsets = chunk.offsets;
  for (auto& plan : site->plans) {
    if (plan->lift_offset == site->varies && Matches(*plan, chunk.offsets)) {
      ++plan->seen;
      return plan;
    }
  }
  // Plans made before an offset was known to vary will not match again.
  count_ -= site->plans.size();
  site->plans.clear();
  auto plan = std::make_shared<Plan>();
  plan->id = next_id_++;
  plan->offsets = chunk.offsets;
  plan->lift_offset = site->varies;
  plan->seen = 1;
  plan->live.assign(chunk.blocks.size(), false);
  site->plans.push_back(plan);
  ++count_;
  Evict();
  return plan;
}

void PlanTable::Evict() {
  while (count_ > max_plans_ && recency_.size() > 1) {
    auto [begin, end] = sites_.equal_range(recency_.back());
    for (auto it = begin; it != end; ++it) {
      if (it->second.recency == std::prev(recency_.end())) {
        count_ -= it->second.plans.size();
        recency_.pop_back();
        sites_.erase(it);
        break;
      }
    }
  }
}

std::vector<std::shared_ptr<Plan>> PlanTable::All() const {
  std::vector<std::shared_ptr<Plan>> plans;
  for (const auto& [hash, site] : sites_)
    plans.insert(plans.end(), site.plans.begin(), site.plans.end());
  return plans;
}

}  // namespace dendrite::engine
