// csrc/planner/merger.h - which neighbouring snippets become one.
//
// A *unit* is a snippet that the cutter made, known by its plan's id. A *group* is a sequence of
// units that recurs and is worth one executable of its own. A *border* is what no snippet spans: a
// read, an operator that does not lower, a host task.
//
// Two halves. *Proposing* looks at what has run: units are gathered at content-defined cuts, as
// operators are gathered into units, at several levels of size. A stretch that recurs and whose
// units were compiled and measured becomes a group once the time that merging may have saved so far
// exceeds what its compile is predicted to cost, so that what is spent stays within twice of the
// best in hindsight, whatever comes. A level is tried only where the one below it paid.
// *Matching* looks at what comes: while the units just closed are the beginning of an active group,
// they are held; the longest group that fits leaves as one, and where the units go another way,
// what is held leaves as it is.
//
// Pure logic: no threads, no clock. The owner guards it with a lock of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace dendrite::planner {

struct MergePolicy {
  int levels = 2;         // 0: nothing is merged
  int64_t factor = 8;     // most units' worth of operators in a group; and from level to level
  int64_t unit_ops = 64;  // the cutter's max_ops
  int64_t max_bytes = int64_t{256} << 20;  // written by a group's operators
  // What a compile takes for each operator, before anything was measured.
  double seconds_per_op = 2e-3;
  // The part of the units' time that merging is expected to save, before it was measured, and the
  // least measured saving that makes the next level worth a try.
  double expected_saving = 0.15;
  double least_saving = 0.02;
  // Bound on what is remembered: see Merger::full.
  size_t max_nodes = size_t{1} << 14;
};

class Merger {
 public:
  struct Unit {
    int64_t id = 0;             // its plan's: never reused
    uint64_t content_hash = 0;  // of its operators: equal in all processes
    int64_t ops = 0;
    int64_t bytes_written = 0;
    bool settled = false;  // compiled and measured, or never to be compiled
    double seconds = 0;    // its fastest run
  };
  // `count` held units leave, oldest first: as one (group >= 0), or each by itself.
  struct Release {
    size_t count = 0;
    int32_t group = -1;
  };
  struct Saving {
    bool measured = false;
    double part = 0;  // of the units' time; negative if the group is slower
  };
  using AskSaving = std::function<Saving(int32_t group)>;

  // `ask`: what a group was measured to save; called from Add and Border.
  Merger(MergePolicy policy, AskSaving ask);

  // The next unit of the tape. It is held; then what leaves is appended to `out`.
  void Add(const Unit& unit, std::vector<Release>* out);
  // A unit that has run already, but counts among what recurs. What is held before it leaves.
  void Pass(const Unit& unit, std::vector<Release>* out);
  // A border follows: everything held leaves.
  void Border(std::vector<Release>* out);
  // Everything held leaves, but no border is meant: the caller has gone silent.
  void Flush(std::vector<Release>* out);
  size_t held() const { return held_.size(); }
  // Too much is remembered: the owner calls Forget, and drops what it keeps by group.
  bool full() const {
    return nodes_.size() > policy_.max_nodes || sightings_.size() > policy_.max_nodes;
  }
  // Forgets all groups and sightings; group ids begin anew. REQUIRES: nothing is held.
  void Forget();

  // An inactive group is not waited for (its compile runs, or it does not pay). New ones are
  // active, so that the owner gets to see their units together.
  void SetActive(int32_t group, bool active);
  // A group of so many operators took so long to compile: predictions follow.
  void Learn(int64_t ops, double seconds);
  int32_t num_groups() const { return static_cast<int32_t>(group_nodes_.size()); }

 private:
  // A trie over unit ids; node 0 is its root.
  struct Node {
    std::unordered_map<int64_t, int32_t> next;
    int32_t parent = -1;
    int32_t group = -1;  // of the sequence from the root to here
    bool active = false;
    int32_t active_below = 0;  // groups
  };
  // A stretch of the history at one level.
  struct Gathering {
    std::vector<Unit> units;
    std::vector<int32_t> parts;  // groups of the level below; -1: there is none (yet)
    int64_t ops = 0, bytes = 0;
    double seconds = 0;
    bool settled = true;
  };
  struct Sighting {
    int64_t seen = 0;
    double seconds = 0;  // of its units, all sightings
  };

  void Match(const Unit& unit, std::vector<Release>* out);
  void Record(const Unit& unit);
  void LeaveLongest(std::vector<Release>* out);
  void LeaveAll(std::vector<Release>* out);
  void Gather(size_t level, const Gathering& stretch, uint64_t content_hash);
  void Close(size_t level, uint64_t content_hash);
  bool Pays(size_t level, const Gathering& stretch);
  int32_t Propose(size_t level, const Gathering& stretch);
  int32_t Find(const std::vector<Unit>& units) const;  // node, or -1
  int32_t Insert(const std::vector<Unit>& units);      // group

  const MergePolicy policy_;
  const AskSaving ask_;
  std::vector<Unit> held_;
  int32_t at_ = 0;  // the node that held_ leads to
  std::vector<Node> nodes_;
  std::vector<int32_t> group_nodes_;  // by group
  std::vector<Gathering> levels_;
  std::unordered_map<uint64_t, Sighting> sightings_;  // by hash of the unit ids
  int64_t learned_ops_ = 0;
  double learned_seconds_ = 0;
};

}  // namespace dendrite::planner
