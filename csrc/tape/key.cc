#include "csrc/tape/key.h"

#include <bit>
#include <unordered_map>

#include "csrc/tape/window.h"

namespace dendrite::tape {
namespace {

// Appends fields so that no two different sequences give the same bytes: numbers are
// self-delimiting, strings and lists carry their length.
class Writer {
 public:
  void Int(int64_t v) {
    // Zigzag, seven bits a byte, so that small numbers of either sign are short.
    uint64_t z = (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
    while (z >= 0x80) {
      out_ += static_cast<char>(z | 0x80);
      z >>= 7;
    }
    out_ += static_cast<char>(z);
  }
  void Double(double v) {
    const auto bits = std::bit_cast<uint64_t>(v);
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(bits >> (8 * i));
  }
  void String(const std::string& s) {
    Int(static_cast<int64_t>(s.size()));
    out_ += s;
  }
  void List(const Dims& v) {
    Int(static_cast<int64_t>(v.size()));
    for (int64_t x : v) Int(x);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

void Write(const Arg& arg, Writer* w) {
  w->Int(static_cast<int64_t>(arg.kind));
  if (arg.kind == Arg::Kind::kNone || arg.kind == Arg::Kind::kIgnored) return;
  w->Int(static_cast<int64_t>(arg.dtype));
  w->Int(arg.i);
  w->Double(arg.d);
  w->Double(arg.im);
  w->List(arg.ints);
  w->Int(static_cast<int64_t>(arg.floats.size()));
  for (double d : arg.floats) w->Double(d);
  w->String(arg.s);
}

void Write(const OperandType& operand, Writer* w) {
  const View& view = operand.view;
  w->Int(static_cast<int64_t>(view.dtype));
  w->List(view.sizes);
  // Strides of dimensions that are never stepped through say nothing.
  for (size_t i = 0; i < view.strides.size(); ++i) {
    w->Int(view.sizes[i] > 1 ? view.strides[i] : 0);
  }
  w->Int(operand.lifted_slot);
  w->Int(view.conj | view.neg << 1 | operand.is_wrapped_number << 2 | operand.read << 3 |
         operand.written << 4);
}

std::string SignatureKey(const Signature& sig) {
  Writer w;
  w.String(sig.op);
  w.Int(static_cast<int64_t>(sig.args.size()));
  for (const Arg& arg : sig.args) Write(arg, &w);
  w.Int(static_cast<int64_t>(sig.operands.size()));
  for (const OperandType& operand : sig.operands) Write(operand, &w);
  w.Int(static_cast<int64_t>(sig.results.size()));
  for (int32_t r : sig.results) w.Int(r);
  w.Int(sig.num_lifted);
  return w.Take();
}

}  // namespace

std::string CanonicalKey(const Tape& tape, bool host_visible) {
  const std::vector<Window> windows = TouchedWindows(tape);
  Writer w;
  w.Int(host_visible);
  w.Int(static_cast<int64_t>(tape.storages.size()));
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    const StorageInfo& info = tape.storages[s];
    w.Int(host_visible ? windows[s].bytes() : info.nbytes);
    w.Int(static_cast<int64_t>(info.form_dtype));
    w.List(info.form_dims);
    w.Int(info.initialized);  // what was never written has no buffer, and no argument
  }
  // A signature that repeats is written once and referred to by number afterwards.
  std::unordered_map<const Signature*, int64_t> by_address;
  std::unordered_map<std::string, int64_t> by_text;
  w.Int(tape.num_lifted);
  w.Int(tape.num_lifted_offsets);
  w.Int(static_cast<int64_t>(tape.records.size()));
  for (const Record& record : tape.records) {
    auto [known, is_new_address] = by_address.try_emplace(record.sig, 0);
    if (is_new_address) {
      std::string text = SignatureKey(*record.sig);
      auto [entry, is_new_text] = by_text.try_emplace(text, static_cast<int64_t>(by_text.size()));
      known->second = entry->second;
      w.Int(known->second);
      if (is_new_text) w.String(text);
    } else {
      w.Int(known->second);
    }
    w.Int(record.first_lifted);
    for (size_t i = 0; i < record.operands.size(); ++i) {
      const OperandRef& ref = record.operands[i];
      w.Int(ref.storage);
      if (ref.storage < 0) continue;
      w.Int(ref.offset_slot);
      if (ref.offset_slot >= 0) continue;
      const int64_t item = ItemSize(record.sig->operands[i].view.dtype);
      // Nothing is read through an empty view, wherever it points.
      const bool empty = record.sig->operands[i].view.numel() == 0;
      const int64_t begin = host_visible ? windows[ref.storage].begin : 0;
      w.Int(empty ? 0 : ref.offset * item - begin);
    }
  }
  return w.Take();
}

}  // namespace dendrite::tape
