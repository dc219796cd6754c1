#include "csrc/planner/merger.h"

#include <algorithm>
#include <utility>

namespace dendrite::planner {
namespace {

uint64_t HashIds(const std::vector<Merger::Unit>& units) {
  uint64_t h = units.size();
  for (const auto& unit : units) {
    h = (h ^ static_cast<uint64_t>(unit.id)) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace

Merger::Merger(MergePolicy policy, AskSaving ask)
    : policy_(policy),
      ask_(std::move(ask)),
      nodes_(1),
      levels_(static_cast<size_t>(std::max(policy.levels, 0))) {}

void Merger::Add(const Unit& unit, std::vector<Release>* out) {
  Match(unit, out);
  Record(unit);
}

void Merger::Pass(const Unit& unit, std::vector<Release>* out) {
  LeaveAll(out);
  Record(unit);
}

void Merger::Record(const Unit& unit) {
  if (levels_.empty()) return;
  Gathering single;
  single.units = {unit};
  single.ops = unit.ops;
  single.bytes = unit.bytes_written;
  single.seconds = unit.seconds;
  single.settled = unit.settled;
  Gather(0, single, unit.content_hash);
}

void Merger::Border(std::vector<Release>* out) {
  LeaveAll(out);
  for (size_t level = 0; level < levels_.size(); ++level) Close(level, 0);
}

void Merger::Flush(std::vector<Release>* out) { LeaveAll(out); }

void Merger::Match(const Unit& unit, std::vector<Release>* out) {
  for (;;) {
    const auto next = nodes_[static_cast<size_t>(at_)].next.find(unit.id);
    if (next != nodes_[static_cast<size_t>(at_)].next.end()) {
      const Node& node = nodes_[static_cast<size_t>(next->second)];
      if (node.active || node.active_below > 0) {
        held_.push_back(unit);
        at_ = next->second;
        if (node.active_below == 0) LeaveLongest(out);
        return;
      }
    }
    if (held_.empty()) {
      out->push_back({1, -1});
      return;
    }
    LeaveLongest(out);
  }
}

// The longest prefix of what is held that is an active group leaves as one, or else the first unit
// by itself; what is left is matched anew.
void Merger::LeaveLongest(std::vector<Release>* out) {
  size_t count = held_.size();
  int32_t at = at_;
  while (count > 0 && !nodes_[static_cast<size_t>(at)].active) {
    at = nodes_[static_cast<size_t>(at)].parent;
    --count;
  }
  if (count > 0) {
    out->push_back({count, nodes_[static_cast<size_t>(at)].group});
  } else {
    count = 1;
    out->push_back({1, -1});
  }
  const std::vector<Unit> rest(held_.begin() + static_cast<std::ptrdiff_t>(count), held_.end());
  held_.clear();
  at_ = 0;
  for (const Unit& unit : rest) Match(unit, out);
}

void Merger::LeaveAll(std::vector<Release>* out) {
  while (!held_.empty()) LeaveLongest(out);
}

void Merger::Gather(size_t level, const Gathering& stretch, uint64_t content_hash) {
  Gathering& to = levels_[level];
  to.units.insert(to.units.end(), stretch.units.begin(), stretch.units.end());
  if (level > 0) to.parts.push_back(stretch.parts.empty() ? -1 : stretch.parts.front());
  to.ops += stretch.ops;
  to.bytes += stretch.bytes;
  to.seconds += stretch.seconds;
  to.settled = to.settled && stretch.settled;
  int64_t most = policy_.unit_ops;
  for (size_t k = 0; k <= level; ++k) most *= policy_.factor;
  // Other bits of the hash at each level, so that a cut here says nothing about the next level.
  const bool chosen = (content_hash >> (8 + 4 * level) & 3) == 0;
  if (to.ops >= most || to.bytes >= policy_.max_bytes || (to.ops >= most / 2 && chosen)) {
    Close(level, content_hash);
  }
}

void Merger::Close(size_t level, uint64_t content_hash) {
  if (levels_[level].units.empty()) return;
  Gathering stretch = std::exchange(levels_[level], {});
  const int32_t group = Propose(level, stretch);
  if (level + 1 == levels_.size()) return;
  stretch.parts.assign(1, group);
  Gather(level + 1, stretch, content_hash);
}

bool Merger::Pays(size_t level, const Gathering& stretch) {
  Sighting& sighting = sightings_[HashIds(stretch.units)];
  ++sighting.seen;
  sighting.seconds += stretch.seconds;
  if (sighting.seen < 2 || !stretch.settled) return false;
  double saving = policy_.expected_saving;
  if (level > 0) {
    // What the level below saved, by its parts' measured savings; a part of a single unit has none.
    double sum = 0;
    int measured = 0;
    for (const int32_t part : stretch.parts) {
      if (part < 0) continue;
      const Saving known = ask_(part);
      if (!known.measured) return false;
      sum += known.part;
      ++measured;
    }
    if (measured == 0 || sum / measured < policy_.least_saving) return false;
    saving = sum / measured / 2;  // each level saves less than the one before
  }
  const double rate = learned_ops_ > 0 ? learned_seconds_ / static_cast<double>(learned_ops_)
                                       : policy_.seconds_per_op;
  return sighting.seconds * saving >= rate * static_cast<double>(stretch.ops);
}

int32_t Merger::Propose(size_t level, const Gathering& stretch) {
  if (stretch.units.size() < 2) return -1;
  if (level > 0 && stretch.parts.size() < 2) return stretch.parts.front();
  const int32_t node = Find(stretch.units);
  if (node >= 0 && nodes_[static_cast<size_t>(node)].group >= 0) {
    return nodes_[static_cast<size_t>(node)].group;
  }
  return Pays(level, stretch) ? Insert(stretch.units) : -1;
}

int32_t Merger::Find(const std::vector<Unit>& units) const {
  int32_t at = 0;
  for (const Unit& unit : units) {
    const auto next = nodes_[static_cast<size_t>(at)].next.find(unit.id);
    if (next == nodes_[static_cast<size_t>(at)].next.end()) return -1;
    at = next->second;
  }
  return at;
}

int32_t Merger::Insert(const std::vector<Unit>& units) {
  int32_t at = 0;
  for (const Unit& unit : units) {
    const auto [next, added] =
        nodes_[static_cast<size_t>(at)].next.emplace(unit.id, static_cast<int32_t>(nodes_.size()));
    const int32_t to = next->second;
    if (added) {
      nodes_.emplace_back();
      nodes_.back().parent = at;
    }
    at = to;
  }
  const auto group = static_cast<int32_t>(group_nodes_.size());
  nodes_[static_cast<size_t>(at)].group = group;
  group_nodes_.push_back(at);
  SetActive(group, true);
  return group;
}

void Merger::SetActive(int32_t group, bool active) {
  int32_t at = group_nodes_[static_cast<size_t>(group)];
  if (nodes_[static_cast<size_t>(at)].active == active) return;
  nodes_[static_cast<size_t>(at)].active = active;
  while ((at = nodes_[static_cast<size_t>(at)].parent) >= 0) {
    nodes_[static_cast<size_t>(at)].active_below += active ? 1 : -1;
  }
}

void Merger::Learn(int64_t ops, double seconds) {
  // Older compiles count less, so that the rate follows what is compiled now.
  if (learned_ops_ > 16 * ops) {
    learned_ops_ /= 2;
    learned_seconds_ /= 2;
  }
  learned_ops_ += ops;
  learned_seconds_ += seconds;
}

void Merger::Forget() {
  nodes_.assign(1, Node());
  group_nodes_.clear();
  sightings_.clear();
  // What is being gathered names groups that are no more.
  levels_.assign(levels_.size(), {});
}

}  // namespace dendrite::planner
