// csrc/tape/record.h - what the tape holds: operator records and the views they read and write.
//
// A *signature* is everything about an operator call that does not change from step to step:
// operator, structural arguments, and the views (dtype, sizes, strides) of its tensors. Signatures
// are interned by csrc/aten, immutable, live until the process ends, and are shared by any number
// of records and threads. A *record* is one call: a signature plus the storages and offsets it
// touched and its lifted values. A *tape* here is a closed run of records, numbered locally, in
// program order: the input of key, lowering and planner. Nothing in this file knows PyTorch.
//
// Tensors are views over storages. A record that reads a view takes what the storage holds at that
// point of program order; one that writes a view changes those elements of the storage for the
// records after it. There is no functionalisation: aliasing is right because storages are what is
// numbered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/tape/dtype.h"

namespace dendrite::tape {

using Dims = std::vector<int64_t>;

// A view without its offset (records hold offsets, so that a moving slice is one signature).
// sizes and strides have equal length and count elements of `dtype`; strides are >= 0 and may be 0
// (expand). conj/neg are PyTorch's lazy bits: the logical value is conj/neg of the stored one.
struct View {
  DType dtype = DType::kUndefined;
  Dims sizes;
  Dims strides;
  bool conj = false;
  bool neg = false;

  int64_t numel() const;
  // Number of elements from the view's first to its last element, inclusive; 0 when empty.
  int64_t span() const;
  // Row-major without gaps (size-1 dimensions may have any stride).
  bool is_contiguous() const;
  // Covers `numel()` consecutive elements, each once, in some order of dimensions.
  bool is_dense() const;
  bool operator==(const View&) const = default;
};

// Row-major strides of `sizes`.
Dims ContiguousStrides(const Dims& sizes);
int64_t NumElements(const Dims& sizes);

// One argument in the order of the operator's schema. For in-place and out= calls the arguments are
// those of the functional overload of the same name (`out` itself is no argument, only a result).
struct Arg {
  // Values reach cache keys: never renumber.
  enum class Kind : uint8_t {
    kNone = 0,        // None / undefined tensor
    kTensor = 1,      // ints[0]: index into Signature::operands
    kTensorList = 2,  // ints: indices into operands, -1 for an undefined or None element
    kInt = 3,         // i
    kFloat = 4,       // d
    kBool = 5,        // i is 0 or 1
    kComplex = 6,     // d + im * j
    kIntList = 7,     // ints
    kFloatList = 8,   // floats
    kBoolList = 9,    // ints
    kString = 10,     // s
    kDType = 11,      // dtype (only where the schema says ScalarType)
    kLifted = 12,     // i: slot of a lifted number; dtype: kI64, kF64, kBool or kC128, its category
    kLiftedList = 13,  // ints: slots, all of category `dtype`
    kIgnored = 14,  // layout, device, memory format, pin_memory, generator: no meaning for lowering
  };
  Kind kind = Kind::kNone;
  DType dtype = DType::kUndefined;
  int64_t i = 0;
  double d = 0;
  double im = 0;
  Dims ints;
  std::vector<double> floats;
  std::string s;
  bool operator==(const Arg&) const = default;
};

// A tensor that the operator reads, writes, or both.
struct OperandType {
  View view;
  // >= 0: not on the device at all, but a 0-dim host number of view.dtype that travels as a lifted
  // value in this slot (Python scalars arrive like that, with is_wrapped_number set).
  int32_t lifted_slot = -1;
  bool is_wrapped_number = false;
  bool read = false;
  bool written = false;
  bool operator==(const OperandType&) const = default;
};

struct Signature {
  uint64_t id = 0;  // process-wide, dense, never in a persistent key
  std::string op;   // the functional overload: "aten.add.Tensor", "aten.relu.default",
                    // "dendrite.uniform.default"
  std::vector<Arg> args;
  std::vector<OperandType> operands;
  // Results of the functional overload in order (lists flattened), then arguments that the operator
  // mutates beside its results, in schema order: operand index, -1 where a result is undefined or
  // not wanted. For a.add_(b): results = {index of a}. Where a result is wider or narrower than the
  // type that the functional form would give (out=, in-place), the value is converted to the view's
  // dtype.
  std::vector<int32_t> results;
  int32_t num_lifted = 0;
};

// A lifted number. Integers and bools in `i`, floats in `d`, complex in d + im*j.
struct Lifted {
  int64_t i = 0;
  double d = 0;
  double im = 0;
};

struct OperandRef {
  int32_t storage = -1;  // index into Tape::storages; -1: a lifted operand
  int64_t offset = 0;    // in elements of the view's dtype
  int32_t offset_slot =
      -1;  // >= 0: the offset itself is lifted, in this slot of Tape::lifted_offsets
};

struct Record {
  const Signature* sig = nullptr;
  std::vector<OperandRef> operands;  // parallel to sig->operands
  int32_t first_lifted = 0;          // where its lifted values begin in the tape's list
  int32_t site = 0;                  // index into Tape::sites
};

struct StorageInfo {
  int64_t nbytes = 0;
  // Opaque targets only: the plugin's buffer is rank 1 and holds the whole storage as elements of
  // this type (form_dims = {nbytes / item size}), both as an argument and as an output.
  // `initialized` is false if no record before this tape has written the storage: then there is no
  // buffer, and it reads as zeros.
  DType form_dtype = DType::kUndefined;
  Dims form_dims;
  bool initialized = true;
};

struct SourceSite {
  std::string file;
  int32_t line = 0;
  std::string function;
};

struct Tape {
  std::vector<Record> records;
  std::vector<StorageInfo> storages;  // numbered by first appearance
  std::vector<SourceSite> sites;
  int32_t num_lifted = 0;  // over all records
  int32_t num_lifted_offsets = 0;
};

}  // namespace dendrite::tape
