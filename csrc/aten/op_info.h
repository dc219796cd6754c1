// csrc/aten/op_info.h - what capture must know of an operator, worked out once from its schema and
// from the override tables (op_tables.h), since schemas do not say everything.
//
// Made at registration (or at an unregistered operator's first call); immutable but for the memo,
// which has its own lock; never freed.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "csrc/engine/op.h"
#include "csrc/interpreter/replay.h"

namespace dendrite::aten {

struct ArgInfo {
  enum class Type : uint8_t {
    kTensor,
    kTensorList,
    kOptionalTensorList,
    kNumber,      // Scalar, int, float, bool, complex, SymInt
    kNumberList,  // int[], float[], bool[], Scalar[]
    kDType,
    kString,
    kIgnored,  // layout, device, memory format, pin_memory: part of the memo key, not of the record
    kGenerator,
    kOther,  // the operator takes the synchronous path
  };
  Type type = Type::kOther;
  bool read = true;
  bool written = false;
  bool out = false;     // an out= argument
  bool lifted = false;  // a number that changes from step to step: an argument of what is compiled
};

struct ReturnInfo {
  bool list = false;
  int alias = -1;  // the argument it returns; -1: new
};

// One memoised call: what the argument metadata leads to.
struct MemoEntry {
  struct Result {
    bool defined = true;
    std::vector<int64_t> sizes, strides;
    c10::ScalarType dtype = c10::ScalarType::Undefined;
  };
  struct Resize {  // an out= or in-place argument whose size changes first
    int arg = 0;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<uint64_t> words;
  bool synchronous = false;        // no Meta kernel, or a type that the tape does not know
  bool nothing_to_do = false;      // every result is empty
  std::unique_ptr<engine::Op> op;  // null if synchronous
  std::unique_ptr<interpreter::Replay> replay;
  std::vector<Result> results;      // new tensors, flattened
  std::vector<int32_t> list_sizes;  // for each new list return
  std::vector<Resize> resizes;
};

struct OpInfo {
  explicit OpInfo(c10::OperatorHandle handle);

  c10::OperatorHandle op;
  c10::OperatorHandle kernel;  // called on the host: `op`, or ours where PyTorch's kernel is wrong
  std::string functional;      // "aten.add.Tensor": the name of the lowering
  std::vector<ArgInfo> args;
  std::vector<ReturnInfo> returns;
  std::optional<c10::OperatorHandle> out_op;  // a CPU kernel that writes where it is told
  bool synchronous = false;                   // always
  bool mutates = false;                       // in-place or out=
  bool checks_overlap = false;
  int bumps_list = -1;              // the list whose tensors' version counters the kernel bumps
  bool batch_norm_writes = false;   // running statistics, undeclared, when training
  bool makes_tensors = false;       // some result is no argument
  bool meta_right = false;          // see IsMetaRight
  bool one_dtype = false;           // see WantsOneDtype
  int training = -1;                // the argument of that name, which decides what is written
  bool meta_wrong = false;          // the CPU kernel says what the results look like
  bool meta_missing = false;        // see IsMetaMissing
  bool host_indices = false;        // has a list of index tensors, which may be the host's
  bool mask_decides_shape = false;  // synchronous if one of its index tensors is a mask

  std::mutex mu;
  std::unordered_map<uint64_t, std::vector<std::unique_ptr<MemoEntry>>> memo;  // guarded by mu
};

}  // namespace dendrite::aten
