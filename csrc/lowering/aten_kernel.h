// csrc/lowering/aten_kernel.h - operators that call PyTorch's own CPU kernel from compiled code.
//
// Where an operator reduces rows that it also computes with, PyTorch's kernels keep a row in cache
// and in vector registers; the compiler writes the row out, reduces it one element at a time, and
// reads it again. docs/decisions/0013 has the measurements behind the list.
//
//   dendrite.aten (tensors...) -> results
//     The functional ATen operator `op`, on CPU. Attributes:
//       op : string            "aten::native_layer_norm", the name; `overload` : string, may be ""
//       args : string          a letter for each argument in the schema's order: t a tensor (the
//                              next operand), n None, i an integer, f a float, b a bool, l a list
//                              of integers, m a list of bools, s the scalar type f32. Arguments
//                              beyond have their defaults.
//       a<k>                   argument k's value: i64, f64, i1, array<i64> (l and m)
//       p<k>                   for an argument in another order of dimensions than its operand:
//                              array<i64>, whose i-th is the operand's dimension that is the i-th
//       results : array<i64>   which of the operator's results (flattened) the call returns
//       r<k>                   as p<k>, for the k-th returned one
//     Operands and results: f32 or i64, at least one element, dense and row-major as given.
#pragma once

#include <string_view>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

inline constexpr std::string_view kAtenKernel = "dendrite.aten";

// Emits the emitter's operator as such a call if it is one of those that measured faster, at this
// size and in these types. False: nothing was emitted, and its lowering must do it.
bool LowerToAtenKernel(Emitter& e);

}  // namespace dendrite::lowering
