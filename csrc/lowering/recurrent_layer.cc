// csrc/lowering/recurrent_layer.cc - one direction of one recurrent layer over a whole sequence,
// and its gradient: by the kernel by name where there is one, else as a loop over time.
//
// Outside of the loop: the input gates of all steps, and the weights' gradients, one product each.
// A packed sequence is spread to [T,N,...] first, with rows that have ended masked: they keep their
// state and send no gradient. What a masked row holds is a copy of row 0, so that it is finite
// whenever the rest is.
#include <functional>
#include <string>

#include "csrc/lowering/kernels_by_name.h"
#include "csrc/lowering/recurrent_kernels.h"
#include "csrc/lowering/recurrent_math.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;
using Values = std::vector<Value>;

Value Load(Emitter& e, int i) {
  const Value x = e.In(i);
  return e.To(x, tape::OpMath(x.dtype));
}

class Sequence {
 public:
  // `input`: [T,N,I], or the rows of a packed sequence.
  Sequence(Emitter& e, const Value& input, const Value& hx, Dims batch_sizes, bool reverse)
      : e_(e),
        batch_sizes_(std::move(batch_sizes)),
        reverse_(reverse),
        steps_(packed() ? static_cast<int64_t>(batch_sizes_.size()) : input.dims[0]),
        batch_(hx.dims[0]) {
    if (!packed()) return;
    Dims first_row;
    int64_t row = 0;
    for (int64_t n : batch_sizes_) {
      for (int64_t i = 0; i < batch_; ++i) {
        if (i < n) places_.push_back(static_cast<int64_t>(rows_.size()));
        rows_.push_back(i < n ? row + i : 0);
      }
      row += n;
    }
    Builder& b = e.b();
    const Value sizes =
        b.BroadcastInDim(b.ConstantInts(DType::kI64, batch_sizes_), {steps_, batch_, 1}, {0});
    mask_ = b.Compare(Cmp::kLt, b.Iota(DType::kI64, {steps_, batch_, 1}, 1), sizes);
  }

  int64_t steps() const { return steps_; }
  int64_t batch() const { return batch_; }

  // Rows of the arguments to [T,N,D] and back.
  Value Spread(const Value& x) { return packed() ? Take(x, rows_, {steps_, batch_}) : x; }
  Value Gather(const Value& x) {
    if (!packed()) return x;
    return Take(Flat(x), places_, {static_cast<int64_t>(places_.size())});
  }
  // [T,N,D] to [T N, D] and back.
  Value Flat(const Value& x) { return e_.b().Reshape(x, {steps_ * batch_, x.dims.back()}); }
  Value Unflat(const Value& x) { return e_.b().Reshape(x, {steps_, batch_, x.dims.back()}); }

  // What each step finds: the values of the step before it, `first` where there is none.
  Value Before(const Value& x, const Value& first) {
    Builder& b = e_.b();
    const Value start = b.Reshape(first, {1, batch_, x.dims[2]});
    const Value shifted = Shift(x, start);
    if (!packed()) return shifted;
    const Value ran = Shift(mask_, b.Constant(DType::kBool, {1, batch_, 1}, 0));
    return b.Select(b.BroadcastTo(ran, x.dims), shifted, b.BroadcastTo(start, x.dims));
  }

  // Runs `body(t, state)` -> state over the steps, in the layer's order or against it.
  Values Loop(bool backward, const Values& init,
              const std::function<Values(const Value&, const Values&)>& body) {
    Builder& b = e_.b();
    Values carry = {b.ConstantInt(DType::kI32, {}, 0)};
    carry.insert(carry.end(), init.begin(), init.end());
    const auto cond = [&](Builder& w, const Values& c) {
      return Values{w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, steps_))};
    };
    const auto step = [&](Builder& w, const Values& c) {
      const Value t =
          backward != reverse_ ? w.Sub(w.ConstantInt(DType::kI32, {}, steps_ - 1), c[0]) : c[0];
      Values next = body(t, {c.begin() + 1, c.end()});
      next.insert(next.begin(), w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)));
      return next;
    };
    Values done = b.While(carry, cond, step);
    done.erase(done.begin());
    return done;
  }

  // Inside of a loop: step t of [T,N,D], and storing it.
  Value At(const Value& x, const Value& t) {
    Builder& b = e_.b();
    const Value zero = b.ConstantInt(DType::kI32, {}, 0);
    return b.Reshape(b.DynamicSlice(x, {t, zero, zero}, {1, batch_, x.dims[2]}),
                     {batch_, x.dims[2]});
  }
  Value Store(const Value& x, const Value& t, const Value& v) {
    Builder& b = e_.b();
    const Value zero = b.ConstantInt(DType::kI32, {}, 0);
    return b.DynamicUpdateSlice(x, b.Reshape(v, {1, batch_, x.dims[2]}), {t, zero, zero});
  }
  // `then` in rows that run at step t, `otherwise` elsewhere.
  Value WhereRunning(const Value& t, const Value& then, const Value& otherwise) {
    if (!packed()) return then;
    Builder& b = e_.b();
    return b.Select(b.BroadcastTo(At(mask_, t), then.dims), then, otherwise);
  }

 private:
  bool packed() const { return !batch_sizes_.empty(); }

  Value Take(const Value& x, const Dims& rows, Dims outer) {
    Builder& b = e_.b();
    const Value taken =
        b.Gather(x, b.ConstantInts(DType::kI64, rows), {{1}, {0}, {0}, 1, {1, x.dims[1]}});
    outer.push_back(x.dims[1]);
    return b.Reshape(taken, outer);
  }
  Value Shift(const Value& x, const Value& first) {
    Builder& b = e_.b();
    if (steps_ == 1) return first;
    Dims start(3, 0), limit = x.dims;
    (reverse_ ? start[0] : limit[0]) = reverse_ ? 1 : steps_ - 1;
    const Value rest = b.Slice(x, start, limit, {1, 1, 1});
    return b.Concatenate(reverse_ ? Values{rest, first} : Values{first, rest}, 0);
  }

  Emitter& e_;
  Dims batch_sizes_;
  bool reverse_;
  int64_t steps_, batch_;
  Dims rows_;    // packed: for each of [T,N], its row, or 0
  Dims places_;  // and for each row its place in [T N]
  Value mask_;   // [T,N,1]
};

Value WithBias(Emitter& e, const Value& gates, const Value& bias) {
  return bias.defined() ? e.b().Add(gates, e.b().BroadcastTo(bias, gates.dims)) : gates;
}

// Not MatMul: inside of a loop a call by name has nothing to gain.
Value Times(Builder& b, const Value& x, const Value& w) {
  return b.DotGeneral(x, w, {{}, {}, {1}, {0}}, x.dtype);
}

// A result that may be absent, which is then empty.
bool IsAbsent(Emitter& e, int k) { return tape::NumElements(e.OutView(k).sizes) == 0; }
void OutOrEmpty(Emitter& e, int k, const std::function<Value()>& make) {
  if (!e.Wanted(k)) return;
  const tape::View& view = e.OutView(k);
  e.Out(k, IsAbsent(e, k) ? e.b().Constant(view.dtype, view.sizes, 0) : make());
}

// --- by name

bool ByName(Emitter& e, int input) {
  return e.traits().kernels_by_name && e.In(input).dtype == DType::kF32;
}

std::string Flag(std::string_view name, bool on) {
  return ", " + std::string(name) + " = " + (on ? "true" : "false");
}
std::string Attributes(RecurrentKind kind, const Dims& batch_sizes, bool reverse) {
  return "{kind = " + std::to_string(static_cast<int64_t>(kind)) +
         " : i64, batch_sizes = " + stablehlo::ArrayText(batch_sizes) + Flag("reverse", reverse);
}

// Calls `kernel` for those results that are not absent.
void CallByName(Emitter& e, std::string_view kernel, const Values& operands, int results,
                const std::string& attributes) {
  std::vector<std::pair<DType, Dims>> types;
  for (int k = 0; k < results; ++k) {
    if (!IsAbsent(e, k)) types.emplace_back(DType::kF32, e.OutView(k).sizes);
  }
  const Values made = e.b().CustomCall(kernel, operands, types, attributes + "}");
  size_t next = 0;
  for (int k = 0; k < results; ++k) {
    OutOrEmpty(e, k, [&] { return made[next++]; });
  }
}

bool ReadKind(Emitter& e, RecurrentKind* kind) {
  const auto found = RecurrentKindOf(e.String(0));
  if (found.has_value()) return *kind = *found, true;
  e.Fail(Unimplemented("a recurrent layer of kind " + e.String(0)));
  return false;
}

// --- forward

// (kind, input, hx, cx?, w_ih, w_hh, b_ih?, b_hh?, batch_sizes, reverse, keep)
//   -> (output, hy, cy, workspace)
void Layer(Emitter& e) {
  RecurrentKind kind;
  if (!ReadKind(e, &kind)) return;
  const Dims batch_sizes = e.Ints(8);
  const bool reverse = e.Bool(9), has_bias = !e.IsNone(6);
  const bool lstm = kind == RecurrentKind::kLstm, gru = kind == RecurrentKind::kGru;
  if (ByName(e, 1)) {
    Values operands = {e.In(1), e.In(2)};
    if (lstm) operands.push_back(e.In(3));
    for (int i : {4, 5}) operands.push_back(e.In(i));
    for (int i : {6, 7}) {
      if (has_bias) operands.push_back(e.In(i));
    }
    return CallByName(e, kRecurrentLayerKernel, operands, 4,
                      Attributes(kind, batch_sizes, reverse) + Flag("bias", has_bias) +
                          Flag("keep", !IsAbsent(e, 3)));
  }
  Builder& b = e.b();
  const Value input = Load(e, 1), hx = Load(e, 2), w_ih = Load(e, 4), w_hh = Load(e, 5);
  const Value b_ih = has_bias ? Load(e, 6) : Value(), b_hh = has_bias ? Load(e, 7) : Value();
  Sequence seq(e, input, hx, batch_sizes, reverse);
  Value gates = seq.Unflat(MatMul(e, {seq.Flat(seq.Spread(input))}, {w_ih, true}));
  gates = WithBias(e, gates, b_ih);
  if (!gru) gates = WithBias(e, gates, b_hh);

  // Turned once: it is read once a step.
  const Value weight = b.Transpose(w_hh, {1, 0});
  const int64_t hidden = hx.dims[1];
  const bool keep = !IsAbsent(e, 3);
  const auto empty = [&](int64_t width) {
    return b.Constant(hx.dtype, {seq.steps(), seq.batch(), width}, 0);
  };
  Values init = {hx, empty(hidden)};  // h, output, [c], [workspace]
  if (lstm) init.push_back(Load(e, 3));
  if (keep) init.push_back(empty(WorkspaceOf(kind) * hidden));
  const Values done = seq.Loop(/*backward=*/false, init, [&](const Value& t, const Values& s) {
    const Value input_gates = seq.At(gates, t), old = s[0];
    const Value hidden_gates = Times(b, old, weight);
    Value h, row;
    Values next;
    if (lstm) {
      const LstmStep step = StepLstm(b, b.Add(input_gates, hidden_gates), s[2]);
      h = step.h;
      next.push_back(seq.WhereRunning(t, step.c, s[2]));
      if (keep) row = Joined(b, {step.i, step.f, step.g, step.o, step.c});
    } else if (gru) {
      const GruStep step = StepGru(b, input_gates, WithBias(e, hidden_gates, b_hh), old);
      h = step.h;
      if (keep) row = Joined(b, {step.r, step.z, step.n, step.hidden_n});
    } else {
      h = StepPlain(b, b.Add(input_gates, hidden_gates), kind == RecurrentKind::kRelu);
    }
    next.insert(next.begin(), {seq.WhereRunning(t, h, old), seq.Store(s[1], t, h)});
    if (keep) next.push_back(seq.Store(s.back(), t, row));
    return next;
  });
  e.Out(0, seq.Gather(done[1]));
  e.Out(1, done[0]);
  OutOrEmpty(e, 2, [&] { return done[2]; });
  OutOrEmpty(e, 3, [&] { return seq.Gather(done.back()); });
}

// --- backward

// What a loop over the steps leaves: gradients of all gates, and of the first states.
struct Swept {
  Value gates, hidden_gates, h, c;
};

struct SweepInput {
  RecurrentKind kind = RecurrentKind::kLstm;
  Value grad_output;  // undefined: zero
  Value grad_h, grad_c, workspace, output, old_h, w_hh;
  LstmSlopes slopes;  // of all steps
};

Swept Sweep(Emitter& e, Sequence& seq, const SweepInput& in) {
  Builder& b = e.b();
  const bool lstm = in.kind == RecurrentKind::kLstm, gru = in.kind == RecurrentKind::kGru;
  const Value zeros = b.Constant(in.w_hh.dtype, {seq.steps(), seq.batch(), in.w_hh.dims[0]}, 0);
  Values init = {in.grad_h, zeros};  // of h, of the gates, [of c], [of the hidden gates]
  if (lstm) init.push_back(in.grad_c);
  if (gru) init.push_back(zeros);
  const Values done = seq.Loop(/*backward=*/true, init, [&](const Value& t, const Values& s) {
    const Value grad_h = in.grad_output.defined() ? b.Add(s[0], seq.At(in.grad_output, t)) : s[0];
    const auto store = [&](const Value& into, const Value& gates) {
      return seq.Store(into, t, seq.WhereRunning(t, gates, Like(b, gates, 0)));
    };
    Values next;
    Value before;
    if (lstm) {
      const LstmSlopes slopes{seq.At(in.slopes.gates, t), seq.At(in.slopes.cell, t),
                              seq.At(in.slopes.forget, t)};
      const LstmStepGrad grad = StepLstmGrad(b, slopes, grad_h, s[2]);
      before = Times(b, grad.gates, in.w_hh);
      next = {store(s[1], grad.gates), seq.WhereRunning(t, grad.c, s[2])};
    } else if (gru) {
      const Value row = seq.At(in.workspace, t);
      const GruStep step{
          Piece(b, row, 0, 4), Piece(b, row, 1, 4), Piece(b, row, 2, 4), Piece(b, row, 3, 4), {}};
      const GruStepGrad grad = StepGruGrad(b, step, seq.At(in.old_h, t), grad_h);
      before = b.Add(grad.h, Times(b, grad.hidden, in.w_hh));
      next = {store(s[1], grad.input), store(s[2], grad.hidden)};
    } else {
      const Value grad =
          StepPlainGrad(b, seq.At(in.output, t), grad_h, in.kind == RecurrentKind::kRelu);
      before = Times(b, grad, in.w_hh);
      next = {store(s[1], grad)};
    }
    next.insert(next.begin(), seq.WhereRunning(t, before, s[0]));
    return next;
  });
  return {done[1], gru ? done[2] : done[1], done[0], lstm ? done[2] : Value()};
}

// (kind, grad_output?, grad_hy?, grad_cy?, input, hx, cx?, w_ih, w_hh, output, workspace,
//  batch_sizes, reverse, wanted)
//   -> (grad_input, grad_hx, grad_cx, grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh)
void LayerBackward(Emitter& e) {
  RecurrentKind kind;
  if (!ReadKind(e, &kind)) return;
  Builder& b = e.b();
  const Dims batch_sizes = e.Ints(11);
  const bool reverse = e.Bool(12);
  const bool lstm = kind == RecurrentKind::kLstm, kept = WorkspaceOf(kind) > 0;
  const auto load_or_zero = [&](int i, const Value& like) {
    return e.IsNone(i) ? Like(b, like, 0) : Load(e, i);
  };
  if (ByName(e, 4)) {
    Values operands = {load_or_zero(1, e.In(9)), load_or_zero(2, e.In(5))};
    if (lstm) operands.push_back(load_or_zero(3, e.In(6)));
    for (int i : {4, 5}) operands.push_back(e.In(i));
    if (lstm) operands.push_back(e.In(6));
    for (int i : {7, 8, 9}) operands.push_back(e.In(i));
    if (kept) operands.push_back(e.In(10));
    return CallByName(e, kRecurrentLayerBackwardKernel, operands, 7,
                      Attributes(kind, batch_sizes, reverse) +
                          Flag("wants_input", !IsAbsent(e, 0)) +
                          Flag("wants_weights", !IsAbsent(e, 3)) + Flag("bias", !IsAbsent(e, 5)));
  }
  const Value input = Load(e, 4), hx = Load(e, 5), w_ih = Load(e, 7), w_hh = Load(e, 8);
  Sequence seq(e, input, hx, batch_sizes, reverse);
  SweepInput in;
  in.kind = kind;
  in.w_hh = w_hh;
  in.output = seq.Spread(Load(e, 9));
  if (!e.IsNone(1)) in.grad_output = seq.Spread(Load(e, 1));
  in.grad_h = load_or_zero(2, hx);
  in.old_h = seq.Before(in.output, hx);
  if (kept) in.workspace = seq.Spread(Load(e, 10));
  if (lstm) {
    const Value cx = Load(e, 6);
    in.grad_c = load_or_zero(3, cx);
    const auto piece = [&](int64_t k) { return Piece(b, in.workspace, k, 5); };
    const LstmStep steps{piece(0), piece(1), piece(2), piece(3), piece(4), {}};
    in.slopes = SlopesOfLstm(b, steps, seq.Before(steps.c, cx));
  }
  const Swept swept = Sweep(e, seq, in);
  const Value gates = seq.Flat(swept.gates), hidden_gates = seq.Flat(swept.hidden_gates);
  OutOrEmpty(e, 0, [&] { return seq.Gather(seq.Unflat(MatMul(e, {gates}, {w_ih}))); });
  e.Out(1, swept.h);
  OutOrEmpty(e, 2, [&] { return swept.c; });
  OutOrEmpty(e, 3, [&] { return MatMul(e, {gates, true}, {seq.Flat(seq.Spread(input))}); });
  OutOrEmpty(e, 4, [&] { return MatMul(e, {hidden_gates, true}, {seq.Flat(in.old_h)}); });
  OutOrEmpty(e, 5, [&] { return Sum(b, gates, {0}); });
  OutOrEmpty(e, 6, [&] { return Sum(b, hidden_gates, {0}); });
}

DENDRITE_LOWERING("dendrite.recurrent_layer.default", Layer);
DENDRITE_LOWERING("dendrite.recurrent_layer_backward.default", LayerBackward);

}  // namespace
}  // namespace dendrite::lowering
