#include "csrc/lowering/snippet_plan.h"

#include <algorithm>
#include <map>

#include "csrc/lowering/view_access.h"
#include "csrc/tape/factor.h"
#include "csrc/tape/window.h"

namespace dendrite::lowering {
namespace {

struct Uses {
  DType first = DType::kUndefined;  // of the first access
  Dims first_form;
  // How many partial writes have each form: the commonest becomes the argument's shape, so that
  // they all update it in place.
  std::map<std::pair<DType, Dims>, int> partial_writes;
  bool written = false;
  bool only_bool = true;  // every access is to booleans
  int64_t first_record = -1, last_record = -1;
};

// The form in which the view sees a window of `count` elements, or flat.
Dims FormOf(const tape::View& view, int64_t offset, bool lifted, int64_t count) {
  if (!lifted && CoversWindow(view, offset, count)) return WholeViewForm(view);
  const auto f = tape::Factor(tape::WithoutBroadcast(view),
                              lifted ? std::nullopt : std::optional<int64_t>(offset), count,
                              tape::Step::kNested);
  return f && f->covered == count ? f->form : Dims{count};
}

void Note(const tape::OperandType& type, const tape::OperandRef& ref, const StoragePlan& plan,
          int64_t record, Uses* uses) {
  const int64_t item = tape::ItemSize(type.view.dtype);
  const int64_t count = plan.bytes / item;
  const int64_t offset = ref.offset - plan.begin / item;
  const bool lifted = ref.offset_slot >= 0;
  if (uses->first == DType::kUndefined) {
    uses->first = type.view.dtype;
    uses->first_form = FormOf(type.view, offset, lifted, count);
    uses->first_record = record;
  }
  uses->last_record = record;
  uses->only_bool = uses->only_bool && type.view.dtype == DType::kBool;
  if (!type.written) return;
  uses->written = true;
  if (lifted || !CoversWindow(type.view, offset, count)) {
    ++uses->partial_writes[{type.view.dtype, FormOf(type.view, offset, lifted, count)}];
  }
}

void ChooseForm(const tape::StorageInfo& info, const Uses& uses, bool host_visible,
                StoragePlan* plan) {
  if (!host_visible && info.form_dtype != DType::kUndefined) {
    plan->has_buffer = info.initialized;
    plan->dtype = info.form_dtype;
    plan->dims = info.form_dims;
    // Bytes that are no booleans do not fit into the buffer of booleans that is there.
    plan->may_alias = plan->dtype != DType::kBool || uses.only_bool || !uses.written;
    return;
  }
  plan->has_buffer = host_visible;
  plan->dtype = uses.first;
  plan->dims = uses.first_form;
  int most = 0;
  for (const auto& [form, count] : uses.partial_writes) {
    if (count <= most) continue;
    most = count;
    plan->dtype = form.first;
    plan->dims = form.second;
  }
  if (plan->dtype == DType::kBool && !uses.only_bool) plan->dtype = DType::kU8;
}

// The most bytes that storages which are born and die inside of the tape hold at once.
int64_t PeakTemporaries(const SnippetPlan& plan, const std::vector<Uses>& uses, size_t records) {
  std::vector<int64_t> change(records + 1);
  for (size_t s = 0; s < uses.size(); ++s) {
    if (!uses[s].written || plan.storages[s].output >= 0) continue;
    change[uses[s].first_record] += plan.storages[s].bytes;
    change[uses[s].last_record + 1] -= plan.storages[s].bytes;
  }
  int64_t held = 0, peak = 0;
  for (int64_t c : change) peak = std::max(peak, held += c);
  return peak;
}

}  // namespace

SnippetPlan MakePlan(const tape::Tape& tape, const SnippetOptions& options) {
  SnippetPlan plan;
  plan.storages.resize(tape.storages.size());
  const std::vector<tape::Window> windows = tape::TouchedWindows(tape);
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    StoragePlan& storage = plan.storages[s];
    storage.begin = options.host_visible ? windows[s].begin : 0;
    storage.bytes = options.host_visible ? windows[s].bytes() : tape.storages[s].nbytes;
  }
  std::vector<Uses> uses(tape.storages.size());
  for (size_t r = 0; r < tape.records.size(); ++r) {
    const tape::Record& record = tape.records[r];
    for (size_t i = 0; i < record.operands.size(); ++i) {
      const tape::OperandType& type = record.sig->operands[i];
      const int32_t s = record.operands[i].storage;
      if (s < 0 || type.view.numel() == 0 || !(type.read || type.written)) continue;
      Note(type, record.operands[i], plan.storages[s], static_cast<int64_t>(r), &uses[s]);
    }
  }
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    ChooseForm(tape.storages[s], uses[s], options.host_visible, &plan.storages[s]);
    const bool live = s < options.live.size() && options.live[s];
    if (uses[s].written && live) plan.storages[s].output = plan.num_outputs++;
  }
  plan.expected_temp_bytes = PeakTemporaries(plan, uses, tape.records.size());
  return plan;
}

}  // namespace dendrite::lowering
