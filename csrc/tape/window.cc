#include "csrc/tape/window.h"

#include <algorithm>
#include <numeric>

#include "csrc/tape/factor.h"

namespace dendrite::tape {
namespace {

struct Touch {
  int64_t low = INT64_MAX, high = 0;
  int64_t item = 1;  // largest element that looks at the storage
  int64_t row = 1;   // bytes between rows of the largest view
  int64_t row_numel = 0;
  bool anywhere = false;
};

int64_t RoundUp(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }

void Add(const View& view, const OperandRef& ref, Touch* touch) {
  const int64_t numel = view.numel();
  if (numel == 0) return;
  const int64_t item = ItemSize(view.dtype);
  touch->item = std::max(touch->item, item);
  if (ref.offset_slot >= 0) touch->anywhere = true;
  touch->low = std::min(touch->low, ref.offset * item);
  touch->high = std::max(touch->high, (ref.offset + view.span()) * item);
  if (numel > touch->row_numel) {
    touch->row_numel = numel;
    touch->row = OuterStride(view) * item;
  }
}

Window Finish(const Touch& touch, int64_t nbytes) {
  if (touch.anywhere) return {0, nbytes / touch.item * touch.item};
  if (touch.high == 0) return {};
  Window w;
  // Begin at the storage's start unless that would more than double the window: a tensor's own
  // slices keep their place in its rows, and small tensors in large buckets lose theirs.
  if (touch.low > touch.high - touch.low) {
    const int64_t row_unit = std::lcm(kWindowAlignment, touch.row);
    w.begin = touch.low / row_unit * row_unit;
    if (touch.low - w.begin > touch.high - touch.low) {
      w.begin = touch.low / kWindowAlignment * kWindowAlignment;
    }
  }
  const int64_t whole_rows =
      w.begin + RoundUp(touch.high - w.begin, std::lcm(touch.row, touch.item));
  const int64_t whole_items = w.begin + RoundUp(touch.high - w.begin, touch.item);
  w.end = whole_rows <= nbytes ? whole_rows : (whole_items <= nbytes ? whole_items : touch.high);
  return w;
}

}  // namespace

std::vector<Window> TouchedWindows(const Tape& tape) {
  std::vector<Touch> touches(tape.storages.size());
  for (const Record& record : tape.records) {
    for (size_t i = 0; i < record.operands.size(); ++i) {
      const OperandRef& ref = record.operands[i];
      const OperandType& type = record.sig->operands[i];
      if (ref.storage < 0 || !(type.read || type.written)) continue;
      Add(type.view, ref, &touches[ref.storage]);
    }
  }
  std::vector<Window> windows;
  windows.reserve(touches.size());
  for (size_t i = 0; i < touches.size(); ++i) {
    windows.push_back(Finish(touches[i], tape.storages[i].nbytes));
  }
  return windows;
}

}  // namespace dendrite::tape
