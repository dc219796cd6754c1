// csrc/lowering/kernels_by_name.h - the custom calls that lowerings emit where a library beats the
// compiler, and the contract of each.
//
// A lowering emits one only if LoweringTraits::kernels_by_name is set. The target then has a
// handler registered under every name in KernelNames() (csrc/interpreter: PyTorch's CPU kernels),
// and compile workers have stubs under the same names. Names and contracts reach caches: a change
// of meaning takes a new name.
//
// Calls are XLA typed FFI (api_version 4). Operands and results are dense and row-major, f32 unless
// said otherwise, never overlapping; a handler must fill every element of its results. Attributes
// come in the dictionary of backend_config, always all of them.
//
//   dendrite.mm   (a, b) -> c            a, b rank 2; attributes trans_a, trans_b : i1 (bool)
//     c[m,n] = op(a) op(b), op(x) being x or, where its flag is set, its transpose: with trans_a, a
//     is stored as [k,m]; with trans_b, b as [n,k]. m, n, k >= 1.
//   dendrite.bmm  (a, b) -> c            the same per leading batch index; a, b, c rank 3
//   dendrite.embedding_backward (grad, indices) -> weight_grad
//     grad [n,d] f32, indices [n] i64, weight_grad [v,d]; attribute padding_idx : i64
//     weight_grad[i] = sum of the rows of grad whose index is i, 0 where there is none and for
//     i == padding_idx. Indices may lie outside of [0, v) (the snippet reports that by itself):
//     such rows must be skipped, not followed.
//
// This file also offers the emitters, which fall back to StableHLO's own operations.
#pragma once

#include <string_view>
#include <vector>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

inline constexpr std::string_view kMmKernel = "dendrite.mm";
inline constexpr std::string_view kBmmKernel = "dendrite.bmm";
inline constexpr std::string_view kEmbeddingBackwardKernel = "dendrite.embedding_backward";

// Every name above.
std::vector<std::string_view> KernelNames();

// A matrix (rank 2) or a batch of them (rank 3) as an operand of a product; `trans` swaps the last
// two dimensions without a copy.
struct MatOperand {
  Value v;
  bool trans = false;
};

// a b in opmath: f16 and bf16 accumulate in f32 and are returned in f32. Ranks equal, 2 or 3.
Value MatMul(Emitter& e, MatOperand a, MatOperand b);

}  // namespace dendrite::lowering
