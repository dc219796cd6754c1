// csrc/lowering/snippet.h - a tape (closed run of records) to one StableHLO module.
//
// The snippet builder keeps, for every storage the tape touches, its current value as an SSA value
// whose row-major order is the storage's order (an N-dimensional "form" of the touched window), and
// derives every view from it: contiguous views are reshapes, permuted ones transposes, nested
// strides slices, expanded ones broadcasts; a gather only where nothing simpler fits. A write of a
// whole storage replaces the value; a partial write is a dynamic_update_slice in the form of that
// view, so that donated storages are updated in place; only irregular views scatter.
//
// Pure functions, no state; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/lowering/registry.h"
#include "csrc/tape/record.h"

namespace dendrite::lowering {

struct SnippetOptions {
  LoweringTraits traits;
  // Host-visible targets: every output lands in the storage's own memory, so each has an argument
  // that it aliases (donated if read, a pure destination if not). Opaque: outputs are fresh buffers
  // unless the storage was an argument that is overwritten.
  bool host_visible = true;
  // Parallel to tape.storages: storages alive after the tape; written ones that are alive are
  // outputs.
  std::vector<bool> live;
  // Kernels are chosen by rule and not by what was measured on this machine.
  bool fixed_choices = false;
};

struct SnippetArg {
  enum class Kind : uint8_t {
    kStorage,        // bytes of a storage
    kLiftedFloat,    // all float lifted values, packed: f64 (or f32 on targets without f64)
    kLiftedInt,      // all int and bool lifted values and lifted offsets, packed: i64
    kLiftedComplex,  // all complex ones: c128 / c64
  };
  Kind kind = Kind::kStorage;
  int32_t storage = -1;
  DType dtype = DType::kUndefined;
  Dims dims;
  int64_t byte_offset = 0;  // where in the storage the argument begins; multiple of 64
  bool donated = false;     // aliased with an output
  bool read = true;         // false: a pure destination
};

struct SnippetOut {
  enum class Kind : uint8_t {
    kStorage,
    kIndexError,  // i32: -1, or the number of the first record whose index check failed
  };
  Kind kind = Kind::kStorage;
  int32_t storage = -1;
  DType dtype = DType::kUndefined;
  Dims dims;
  int32_t aliased_arg = -1;  // index into Snippet::args
};

// Where each lifted value went: for slot i of the tape (first_lifted + slot of the signature),
// which packed vector and which position(s).
struct LiftedPlace {
  SnippetArg::Kind kind = SnippetArg::Kind::kLiftedFloat;
  int32_t index = -1;
};

struct Snippet {
  std::string stablehlo;
  std::vector<SnippetArg> args;
  std::vector<SnippetOut> outs;
  std::vector<LiftedPlace> lifted;  // size tape.num_lifted
  std::vector<int32_t>
      lifted_offsets;  // size tape.num_lifted_offsets: position in the kLiftedInt vector
  // For each lifted offset: the window it must stay in, checked on the host at launch, since a
  // dynamic slice clamps silently: 0 <= offset and offset + span <= extent (elements), and the
  // decomposition of the offset over the form's dimensions must leave room for the view: see
  // CheckLiftedOffset.
  struct OffsetCheck {
    Dims form;    // dimensions of the storage's form
    Dims extent;  // per form dimension: how many elements the view takes
  };
  std::vector<OffsetCheck> offset_checks;
  std::vector<std::string> custom_calls;  // kernels by name that the module calls, sorted, unique
  int64_t expected_temp_bytes = 0;  // lower bound of the temporaries that a good compile needs
};

// True if a view at element `offset` stays inside its form in every dimension.
bool CheckLiftedOffset(const Snippet::OffsetCheck& check, int64_t offset);

// UNIMPLEMENTED if any record has no lowering or a view cannot be expressed.
Result<Snippet> LowerTape(const tape::Tape& tape, const SnippetOptions& options);

}  // namespace dendrite::lowering
