// Copies and conversions: the value of one tensor in the dtype and sizes of another.
#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

void Same(Emitter& e, int from) {
  const tape::View& out = e.OutView(0);
  e.Out(0, e.ToSized(e.In(from), out.dtype, out.sizes));
}

void Copy(Emitter& e) {  // copy(self, src, non_blocking): only the type and sizes of self matter
  // PyTorch converts complex to real with a warning of its own; the value is the real part, as
  // here.
  Same(e, 1);
}

void Clone(Emitter& e) { Same(e, 0); }

void MakeComplex(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Out(e.b().Complex(p[0], p[1]));
}

void Polar(Emitter& e) {  // (abs, angle)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  p.Out(b.Complex(b.Mul(p[0], b.Unary("cosine", p[1])), b.Mul(p[0], b.Unary("sine", p[1]))));
}

DENDRITE_LOWERING("aten.copy.default", Copy);
DENDRITE_LOWERING("aten.clone.default", Clone);
DENDRITE_LOWERING("aten._to_copy.default", Clone);
DENDRITE_LOWERING("aten.complex.default", MakeComplex);
DENDRITE_LOWERING("aten.polar.default", Polar);

}  // namespace
}  // namespace dendrite::lowering
