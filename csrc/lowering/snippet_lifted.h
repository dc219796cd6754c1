// csrc/lowering/snippet_lifted.h - lifted values of a tape, packed in one vector per category.
//
// Every slot keeps its own place even where values happen to be equal, in the order of the tape;
// lifted offsets follow the integers. One object per snippet, one thread.
#pragma once

#include <vector>

#include "csrc/lowering/snippet.h"

namespace dendrite::lowering {

class LiftedPack {
 public:
  LiftedPack(const tape::Tape& tape, const LoweringTraits& traits);

  // Adds the vectors that are not empty to the function's arguments.
  void AddArguments(Builder& b, std::vector<SnippetArg>* args);

  // Rank-0 value of the tape's slot, as it travels (i64, f64, c128). Undefined if nothing says what
  // it is.
  Value Get(Builder& b, int32_t slot) const;
  Value GetOffset(Builder& b, int32_t slot) const;  // i64

  const std::vector<LiftedPlace>& places() const { return places_; }
  const std::vector<int32_t>& offsets() const { return offsets_; }

 private:
  struct Vector {
    DType dtype;
    int32_t size = 0;
    Value value;
  };
  void Place(int64_t slot, DType category);
  const Vector& vector(SnippetArg::Kind kind) const;
  static Value Element(Builder& b, const Vector& v, int32_t index);

  Vector floats_, ints_, complexes_;
  std::vector<LiftedPlace> places_;
  std::vector<int32_t> offsets_;
};

}  // namespace dendrite::lowering
