#include "csrc/lowering/snippet_lifted.h"

#include <algorithm>

namespace dendrite::lowering {

LiftedPack::LiftedPack(const tape::Tape& tape, const LoweringTraits& traits)
    : floats_{LiftedDType(DType::kF64, traits), 0, {}},
      ints_{DType::kI64, 0, {}},
      complexes_{LiftedDType(DType::kC128, traits), 0, {}},
      places_(static_cast<size_t>(std::max(tape.num_lifted, 0))) {
  for (const tape::Record& record : tape.records) {
    std::vector<DType> category(static_cast<size_t>(std::max(record.sig->num_lifted, 0)));
    const auto note = [&](int64_t slot, DType dtype) {
      if (slot >= 0 && slot < static_cast<int64_t>(category.size())) category[slot] = dtype;
    };
    for (const Arg& arg : record.sig->args) {
      if (arg.kind == Arg::Kind::kLifted) note(arg.i, arg.dtype);
      if (arg.kind == Arg::Kind::kLiftedList) {
        for (int64_t slot : arg.ints) note(slot, arg.dtype);
      }
    }
    for (const tape::OperandType& operand : record.sig->operands) {
      note(operand.lifted_slot, operand.view.dtype);
    }
    for (size_t i = 0; i < category.size(); ++i) {
      Place(record.first_lifted + static_cast<int64_t>(i), category[i]);
    }
  }
  for (int32_t i = 0; i < tape.num_lifted_offsets; ++i) offsets_.push_back(ints_.size++);
}

void LiftedPack::Place(int64_t slot, DType category) {
  if (category == DType::kUndefined || slot < 0 || slot >= static_cast<int64_t>(places_.size())) {
    return;
  }
  const SnippetArg::Kind kind = tape::IsComplex(category) ? SnippetArg::Kind::kLiftedComplex
                                : tape::IsFloat(category) ? SnippetArg::Kind::kLiftedFloat
                                                          : SnippetArg::Kind::kLiftedInt;
  auto& v = const_cast<Vector&>(vector(kind));
  places_[slot] = {kind, v.size++};
}

const LiftedPack::Vector& LiftedPack::vector(SnippetArg::Kind kind) const {
  if (kind == SnippetArg::Kind::kLiftedComplex) return complexes_;
  return kind == SnippetArg::Kind::kLiftedFloat ? floats_ : ints_;
}

void LiftedPack::AddArguments(Builder& b, std::vector<SnippetArg>* args) {
  const auto add = [&](Vector& v, SnippetArg::Kind kind) {
    if (v.size == 0) return;
    v.value = b.Argument(v.dtype, {v.size});
    SnippetArg arg;
    arg.kind = kind;
    arg.dtype = v.dtype;
    arg.dims = v.value.dims;
    args->push_back(std::move(arg));
  };
  add(floats_, SnippetArg::Kind::kLiftedFloat);
  add(ints_, SnippetArg::Kind::kLiftedInt);
  add(complexes_, SnippetArg::Kind::kLiftedComplex);
}

Value LiftedPack::Element(Builder& b, const Vector& v, int32_t index) {
  return b.Reshape(b.Slice(v.value, {index}, {index + 1}, {1}), {});
}

Value LiftedPack::Get(Builder& b, int32_t slot) const {
  if (slot < 0 || slot >= static_cast<int32_t>(places_.size()) || places_[slot].index < 0) {
    return {};
  }
  return Element(b, vector(places_[slot].kind), places_[slot].index);
}

Value LiftedPack::GetOffset(Builder& b, int32_t slot) const {
  return Element(b, ints_, offsets_[slot]);
}

}  // namespace dendrite::lowering
