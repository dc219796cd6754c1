// csrc/tape/tape_maker.h - makes small tapes in tests and benchmarks; production tapes come from
// csrc/aten.
//
//   TapeMaker t;
//   int x = t.Storage(64), y = t.Storage(64);
//   t.Record("aten.exp.default", {t.Read(x, {4, 4})}, {t.Write(y, {4, 4})});
//
// Signatures live as long as the maker. Header only; one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "csrc/tape/record.h"

namespace dendrite::tape {

class TapeMaker {
 public:
  // An operand or another argument of a record.
  struct Item {
    Arg arg;
    OperandType type;
    OperandRef ref;
    bool is_operand = false;
  };

  int Storage(int64_t nbytes) {
    tape_.storages.push_back({nbytes, DType::kUndefined, {}});
    return static_cast<int>(tape_.storages.size()) - 1;
  }
  int OpaqueStorage(int64_t nbytes, DType dtype, Dims dims) {
    tape_.storages.push_back({nbytes, dtype, std::move(dims)});
    return static_cast<int>(tape_.storages.size()) - 1;
  }

  static View ViewOf(Dims sizes, Dims strides = {}, DType dtype = DType::kF32) {
    View view;
    view.dtype = dtype;
    view.strides = strides.empty() ? ContiguousStrides(sizes) : std::move(strides);
    view.sizes = std::move(sizes);
    return view;
  }
  static Item Operand(int storage, View view, int64_t offset, bool read, bool written) {
    Item item;
    item.is_operand = true;
    item.type.view = std::move(view);
    item.type.read = read;
    item.type.written = written;
    item.ref.storage = storage;
    item.ref.offset = offset;
    return item;
  }
  static Item Read(int storage, Dims sizes, Dims strides = {}, int64_t offset = 0) {
    return Operand(storage, ViewOf(std::move(sizes), std::move(strides)), offset, true, false);
  }
  static Item Write(int storage, Dims sizes, Dims strides = {}, int64_t offset = 0) {
    return Operand(storage, ViewOf(std::move(sizes), std::move(strides)), offset, false, true);
  }
  // Argument and result of an in-place call.
  static Item Update(int storage, Dims sizes, Dims strides = {}, int64_t offset = 0) {
    return Operand(storage, ViewOf(std::move(sizes), std::move(strides)), offset, true, true);
  }
  // The same item with an offset that is known at launch only.
  Item Moving(Item item) {
    item.ref.offset = 0;
    item.ref.offset_slot = tape_.num_lifted_offsets++;
    return item;
  }
  static Item Int(int64_t v) { return Plain(Arg::Kind::kInt, v, 0); }
  static Item Float(double v) { return Plain(Arg::Kind::kFloat, 0, v); }
  static Item None() { return Plain(Arg::Kind::kNone, 0, 0); }
  static Item LiftedNumber(DType category) {
    Item item = Plain(Arg::Kind::kLifted, 0, 0);
    item.arg.dtype = category;
    return item;
  }

  // Results are written operands that are no arguments; an Update among the arguments is a result,
  // too.
  void Record(std::string op, std::vector<Item> args, std::vector<Item> results = {}) {
    auto sig = std::make_unique<Signature>();
    sig->id = signatures_.size();
    sig->op = std::move(op);
    dendrite::tape::Record record;
    record.first_lifted = tape_.num_lifted;
    const auto add = [&](Item& item) {
      sig->operands.push_back(item.type);
      record.operands.push_back(item.ref);
      return static_cast<int32_t>(sig->operands.size()) - 1;
    };
    for (Item& item : args) {
      if (item.is_operand) {
        const int32_t at = add(item);
        item.arg.kind = Arg::Kind::kTensor;
        item.arg.ints = {at};
        if (item.type.written) sig->results.push_back(at);
      } else if (item.arg.kind == Arg::Kind::kLifted) {
        item.arg.i = sig->num_lifted++;
      }
      sig->args.push_back(item.arg);
    }
    for (Item& item : results) sig->results.push_back(add(item));
    tape_.num_lifted += sig->num_lifted;
    record.sig = sig.get();
    record.site = site_;
    signatures_.push_back(std::move(sig));
    tape_.records.push_back(std::move(record));
  }

  // The line that the records which follow were made on.
  void At(std::string file, int line) {
    tape_.sites.push_back({std::move(file), line, ""});
    site_ = static_cast<int32_t>(tape_.sites.size()) - 1;
  }

  Tape& tape() { return tape_; }

 private:
  static Item Plain(Arg::Kind kind, int64_t i, double d) {
    Item item;
    item.arg.kind = kind;
    item.arg.i = i;
    item.arg.d = d;
    return item;
  }
  Tape tape_;
  int32_t site_ = 0;
  std::vector<std::unique_ptr<Signature>> signatures_;
};

}  // namespace dendrite::tape
