// csrc/lowering/gated.cc - the gated linear unit: one half of a dimension gates the other.
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// The two halves of x along `dim`, in opmath.
void Halves(Emitter& e, const Value& x, int64_t dim, Value* values, Value* gate) {
  Builder& b = e.b();
  Dims start(x.dims.size(), 0), limit = x.dims;
  const Dims ones(x.dims.size(), 1);
  limit[dim] = x.dims[dim] / 2;
  const DType math = tape::OpMath(x.dtype);
  *values = e.To(b.Slice(x, start, limit, ones), math);
  start[dim] = limit[dim];
  limit[dim] = x.dims[dim];
  *gate = b.Unary("logistic", e.To(b.Slice(x, start, limit, ones), math));
}

bool Splittable(Emitter& e, const Value& x, int64_t dim) {
  if (x.rank() > 0 && x.dims[dim] % 2 == 0 && tape::IsFloat(x.dtype)) return true;
  e.Fail(Unimplemented(e.sig().op + " of this tensor"));
  return false;
}

// (self, dim)
void Glu(Emitter& e) {
  const Value x = e.In(0);
  const int64_t dim = WrapDim(e.Int(1, -1), x.rank());
  if (!Splittable(e, x, dim)) return;
  Value values, gate;
  Halves(e, x, dim, &values, &gate);
  e.Out(0, e.b().Mul(values, gate));
}

// (grad_output, self, dim)
void GluBackward(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.In(1);
  const int64_t dim = WrapDim(e.Int(2, -1), x.rank());
  if (!Splittable(e, x, dim)) return;
  Value values, gate;
  Halves(e, x, dim, &values, &gate);
  const Value grad = e.To(e.In(0), gate.dtype);
  const Value slope = b.Mul(b.Sub(Like(b, gate, 1), gate), gate);
  e.Out(0, b.Concatenate({b.Mul(gate, grad), b.Mul(b.Mul(slope, grad), values)}, dim));
}

DENDRITE_LOWERING("aten.glu.default", Glu);
DENDRITE_LOWERING("aten.glu_backward.default", GluBackward);

}  // namespace
}  // namespace dendrite::lowering
