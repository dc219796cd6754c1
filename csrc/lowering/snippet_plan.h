// csrc/lowering/snippet_plan.h - what a look over the whole tape decides before the first operation
// is emitted: each storage's window, the shape of its argument, and which storages are outputs.
// Pure function of the tape and the options.
#pragma once

#include <vector>

#include "csrc/lowering/snippet.h"

namespace dendrite::lowering {

struct StoragePlan {
  int64_t begin = 0, bytes = 0;     // the window, in bytes of the storage
  DType dtype = DType::kUndefined;  // of the argument, and of zeros where there is none
  Dims dims;
  bool has_buffer = true;  // an argument may be made; false: opaque and never written before
  bool may_alias = true;   // the argument's buffer can hold the output
  int32_t output = -1;     // position among the outputs
};

struct SnippetPlan {
  std::vector<StoragePlan> storages;
  int32_t num_outputs = 0;
  int64_t expected_temp_bytes = 0;
};

SnippetPlan MakePlan(const tape::Tape& tape, const SnippetOptions& options);

}  // namespace dendrite::lowering
