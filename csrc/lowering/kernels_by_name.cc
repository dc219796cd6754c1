#include "csrc/lowering/kernels_by_name.h"

#include <string>

#include "csrc/lowering/aten_kernel.h"
#include "csrc/lowering/conv_kernels.h"
#include "csrc/lowering/recurrent_kernels.h"

namespace dendrite::lowering {
namespace {

// Below this the call costs more than what the library saves.
constexpr int64_t kMinWork = int64_t{32} * 32 * 32;

// Sees through a transpose of the last two dimensions: the kernels and dots read either order, and
// XLA would otherwise make the transposed copy in front of an opaque call.
void FoldTranspose(const Builder& b, MatOperand& m) {
  Value source;
  Dims perm;
  if (!b.FindTranspose(m.v, &source, &perm)) return;
  const int64_t r = m.v.rank();
  for (int64_t i = 0; i < r - 2; ++i) {
    if (perm[i] != i) return;
  }
  if (perm[r - 1] != r - 2) return;
  m = {source, !m.trans};
}

std::string FlagText(bool flag) { return flag ? "true" : "false"; }

}  // namespace

std::vector<std::string_view> KernelNames() {
  return {kMmKernel,
          kBmmKernel,
          kEmbeddingBackwardKernel,
          kConvolutionKernel,
          kConvolutionBackwardKernel,
          kRecurrentLayerKernel,
          kRecurrentLayerBackwardKernel,
          kAtenKernel};
}

Value MatMul(Emitter& e, MatOperand a, MatOperand b) {
  Builder& bld = e.b();
  const int64_t r = a.v.rank();
  if (r < 2 || r > 3 || b.v.rank() != r) {
    e.Fail(Internal("MatMul: operands of rank 2 or 3 expected"));
    return a.v;
  }
  const DType acc = tape::OpMath(a.v.dtype);
  FoldTranspose(bld, a);
  FoldTranspose(bld, b);
  const int64_t m = a.v.dims[a.trans ? r - 1 : r - 2], k = a.v.dims[a.trans ? r - 2 : r - 1];
  const int64_t n = b.v.dims[b.trans ? r - 2 : r - 1];
  Dims out_dims = {m, n};
  if (r == 3) out_dims.insert(out_dims.begin(), a.v.dims[0]);
  if (tape::NumElements(out_dims) == 0 || k == 0) return bld.Constant(acc, out_dims, 0);

  a.v = e.To(a.v, acc);
  b.v = e.To(b.v, acc);
  ProductChoice* choice = e.traits().products;
  if (e.traits().kernels_by_name && acc == DType::kF32 &&
      tape::NumElements(out_dims) * k >= kMinWork &&
      (choice == nullptr ||
       choice->ByName({r == 3 ? out_dims[0] : 1, m, n, k, a.trans, b.trans}))) {
    const std::string config =
        "{trans_a = " + FlagText(a.trans) + ", trans_b = " + FlagText(b.trans) + "}";
    std::vector<Value> out =
        bld.CustomCall(r == 2 ? kMmKernel : kBmmKernel, {a.v, b.v}, {{acc, out_dims}}, config);
    if (out.size() == 1) return out[0];
    return bld.Constant(acc, out_dims, 0);
  }
  stablehlo::DotDims dims;
  if (r == 3) dims.lhs_batch = dims.rhs_batch = {0};
  dims.lhs_contract = {a.trans ? r - 2 : r - 1};
  dims.rhs_contract = {b.trans ? r - 1 : r - 2};
  return bld.DotGeneral(a.v, b.v, dims, acc);
}

}  // namespace dendrite::lowering
