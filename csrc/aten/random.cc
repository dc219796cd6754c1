// Random operators. PyTorch's names claim (seed, offset) from the device's generator and become
// operators of the library `dendrite`, which carry what was claimed as lifted numbers and so run on
// any tier; their CPU kernels are csrc/base/philox.h's.
#include <ATen/Functions.h>
#include <torch/library.h>

#include <bit>

#include "csrc/aten/registration.h"
#include "csrc/base/philox.h"
#include "csrc/device/generator.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using at::Tensor;
using Gen = std::optional<at::Generator>;

PhiloxStream Stream(int64_t seed, int64_t offset) {
  return {std::bit_cast<uint64_t>(seed), std::bit_cast<uint64_t>(offset)};
}

// --- CPU kernels: fill a contiguous tensor, then copy if `self` is not.

template <typename F>
Tensor& Fill(Tensor& self, c10::ScalarType compute, F&& fill) {
  if (self.numel() == 0) return self;
  const bool direct = self.is_contiguous() && self.scalar_type() == compute;
  Tensor out = direct ? self : at::empty(self.sizes(), self.options().dtype(compute));
  fill(out);
  if (!direct) self.copy_(out);
  return self;
}

// Calls f with a float* or double*: doubles for double tensors (and integers), floats for the
// narrower types.
template <typename F>
Tensor& FillReal(Tensor& self, F&& f) {
  const bool wide = self.scalar_type() == at::kDouble || self.scalar_type() == at::kComplexDouble;
  return Fill(self, wide ? at::kDouble : at::kFloat, [&](Tensor& out) {
    wide ? f(out.data_ptr<double>(), out.numel()) : f(out.data_ptr<float>(), out.numel());
  });
}

int UniformBits(c10::ScalarType type) {
  return type == at::kHalf       ? kUniformBitsF16
         : type == at::kBFloat16 ? kUniformBitsBF16
                                 : kUniformBitsF32;
}

Tensor& CpuUniform(Tensor& self, int64_t seed, int64_t offset, double from, double to) {
  const int bits = UniformBits(self.scalar_type());
  return FillReal(self, [&](auto* out, int64_t n) {
    if constexpr (std::is_same_v<decltype(out), float*>) {
      FillUniform(Stream(seed, offset), out, n, from, to, bits);
    } else {
      FillUniform(Stream(seed, offset), out, n, from, to);
    }
  });
}
Tensor& CpuNormal(Tensor& self, int64_t seed, int64_t offset, double mean, double std) {
  return FillReal(
      self, [&](auto* out, int64_t n) { FillNormal(Stream(seed, offset), out, n, mean, std); });
}
Tensor& CpuLogNormal(Tensor& self, int64_t seed, int64_t offset, double mean, double std) {
  return FillReal(
      self, [&](auto* out, int64_t n) { FillLogNormal(Stream(seed, offset), out, n, mean, std); });
}
Tensor& CpuCauchy(Tensor& self, int64_t seed, int64_t offset, double median, double sigma) {
  return FillReal(
      self, [&](auto* out, int64_t n) { FillCauchy(Stream(seed, offset), out, n, median, sigma); });
}
Tensor& CpuExponential(Tensor& self, int64_t seed, int64_t offset, double lambda) {
  return FillReal(
      self, [&](auto* out, int64_t n) { FillExponential(Stream(seed, offset), out, n, lambda); });
}
Tensor& CpuGeometric(Tensor& self, int64_t seed, int64_t offset, double p) {
  return Fill(self, at::kDouble, [&](Tensor& out) {
    FillGeometric(Stream(seed, offset), out.data_ptr<double>(), out.numel(), p);
  });
}
Tensor& CpuBernoulli(Tensor& self, int64_t seed, int64_t offset, double p) {
  return Fill(self, at::kBool, [&](Tensor& out) {
    FillBernoulli(Stream(seed, offset), out.data_ptr<bool>(), out.numel(), p);
  });
}
Tensor& CpuBernoulliTensor(Tensor& self, int64_t seed, int64_t offset, const Tensor& p) {
  const Tensor chances = p.to(at::kDouble).expand(self.sizes()).contiguous();
  TORCH_CHECK(
      self.numel() == 0 || (chances.min().item<double>() >= 0 && chances.max().item<double>() <= 1),
      "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  return Fill(self, at::kBool, [&](Tensor& out) {
    FillBernoulli(Stream(seed, offset), out.data_ptr<bool>(), out.numel(),
                  chances.data_ptr<double>());
  });
}
Tensor& CpuRandom(Tensor& self, int64_t seed, int64_t offset, int64_t from, int64_t to) {
  return Fill(self, at::kLong, [&](Tensor& out) {
    FillRandom(Stream(seed, offset), out.data_ptr<int64_t>(), out.numel(), from, to);
  });
}
std::tuple<Tensor, Tensor> CpuDropout(const Tensor& input, int64_t seed, int64_t offset, double p) {
  Tensor mask = at::empty(input.sizes(), input.options().dtype(at::kBool));
  if (mask.numel() > 0)
    FillBernoulli(Stream(seed, offset), mask.data_ptr<bool>(), mask.numel(), 1 - p);
  const double scale = p == 1 ? 0.0 : 1 / (1 - p);
  return {input.mul(mask).mul_(scale), mask};
}

// --- what the library declares; Meta kernels only check.

std::tuple<Tensor, Tensor> MetaDropout(const Tensor& input, int64_t, int64_t, double) {
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

// --- PyTorch's names.

void CheckReal(const Tensor& self, const char* name) {
  TORCH_CHECK(self.is_floating_point(), name, " expects a floating-point tensor, got ",
              self.scalar_type());
}

template <typename... Args>
Tensor& Call(const char* name, Tensor& self, const Gen& gen, Args... args) {
  const PhiloxStream claim = device::Claim(gen, self.device().index(), self.numel());
  at::AutoDispatchBelowADInplaceOrView below;
  torch::jit::Stack stack{self, std::bit_cast<int64_t>(claim.seed),
                          std::bit_cast<int64_t>(claim.offset), args...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return self;
}

Tensor& Uniform(Tensor& self, double from, double to, Gen gen) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "uniform_ expects a floating-point tensor, got ", self.scalar_type());
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  if (self.is_complex()) {  // real and imaginary parts each
    Tensor parts = at::view_as_real(self);
    Call("dendrite::uniform_", parts, gen, from, to);
    return self;
  }
  return Call("dendrite::uniform_", self, gen, from, to);
}
Tensor& Normal(Tensor& self, double mean, double std, Gen gen) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  if (self.is_complex()) {
    Tensor parts = at::view_as_real(self);
    Call("dendrite::normal_", parts, gen, mean, std / std::sqrt(2.0));
    return self;
  }
  CheckReal(self, "normal_");
  return Call("dendrite::normal_", self, gen, mean, std);
}
Tensor& LogNormal(Tensor& self, double mean, double std, Gen gen) {
  CheckReal(self, "log_normal_");
  TORCH_CHECK(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
  return Call("dendrite::log_normal_", self, gen, mean, std);
}
Tensor& Cauchy(Tensor& self, double median, double sigma, Gen gen) {
  CheckReal(self, "cauchy_");
  TORCH_CHECK(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  return Call("dendrite::cauchy_", self, gen, median, sigma);
}
Tensor& Exponential(Tensor& self, double lambda, Gen gen) {
  CheckReal(self, "exponential_");
  TORCH_CHECK(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  return Call("dendrite::exponential_", self, gen, lambda);
}
Tensor& Geometric(Tensor& self, double p, Gen gen) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  return Call("dendrite::geometric_", self, gen, p);
}
Tensor& BernoulliFloat(Tensor& self, double p, Gen gen) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return Call("dendrite::bernoulli_", self, gen, p);
}
Tensor& BernoulliTensor(Tensor& self, const Tensor& p, Gen gen) {
  const PhiloxStream claim = device::Claim(gen, self.device().index(), self.numel());
  at::AutoDispatchBelowADInplaceOrView below;
  torch::jit::Stack stack{self, std::bit_cast<int64_t>(claim.seed),
                          std::bit_cast<int64_t>(claim.offset), p.to(self.device())};
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("dendrite::bernoulli_", "Tensor")
      .callBoxed(&stack);
  return self;
}
Tensor Bernoulli(const Tensor& self, Gen gen) {
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return BernoulliTensor(out, self, gen);
}
Tensor& BernoulliOut(const Tensor& self, Gen gen, Tensor& out) {
  out.resize_(self.sizes());
  return BernoulliTensor(out, self, gen);
}

// Upper bound of random_() without bounds: what the type holds exactly.
int64_t RandomLimit(c10::ScalarType type) {
  switch (type) {
    case at::kBool:
      return 2;
    case at::kByte:
      return 256;
    case at::kChar:
      return 128;
    case at::kShort:
      return 32768;
    case at::kInt:
      return int64_t{1} << 31;
    case at::kHalf:
      return (1 << 11) + 1;
    case at::kBFloat16:
      return (1 << 8) + 1;
    case at::kFloat:
      return (1 << 24) + 1;
    case at::kDouble:
      return (int64_t{1} << 53) + 1;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}
Tensor& RandomFromTo(Tensor& self, int64_t from, std::optional<int64_t> to, Gen gen) {
  const int64_t limit = to.value_or(RandomLimit(self.scalar_type()));
  TORCH_CHECK(from < limit, "random_ expects 'from' to be less than 'to', but got from=", from,
              " >= to=", limit);
  return Call("dendrite::random_", self, gen, from, limit);
}
Tensor& RandomTo(Tensor& self, int64_t to, Gen gen) { return RandomFromTo(self, 0, to, gen); }
Tensor& Random(Tensor& self, Gen gen) { return RandomFromTo(self, 0, std::nullopt, gen); }

std::tuple<Tensor, Tensor> NativeDropout(const Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  const PhiloxStream claim = device::Claim(std::nullopt, input.device().index(), input.numel());
  at::AutoDispatchBelowADInplaceOrView below;
  torch::jit::Stack stack{input, std::bit_cast<int64_t>(claim.seed),
                          std::bit_cast<int64_t>(claim.offset), p};
  c10::Dispatcher::singleton().findSchemaOrThrow("dendrite::native_dropout", "").callBoxed(&stack);
  return {stack[0].toTensor(), stack[1].toTensor()};
}

Tensor NormalTensorFloat(const Tensor& mean, double std, Gen gen) {
  Tensor out = at::empty_like(mean, at::MemoryFormat::Contiguous);
  return Normal(out, 0, std, gen).add_(mean);
}
Tensor NormalFloatTensor(double mean, const Tensor& std, Gen gen) {
  Tensor out = at::empty_like(std, at::MemoryFormat::Contiguous);
  return Normal(out, 0, 1, gen).mul_(std).add_(mean);
}
Tensor NormalTensorTensor(const Tensor& mean, const Tensor& std, Gen gen) {
  Tensor out = at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options());
  return Normal(out, 0, 1, gen).mul_(std).add_(mean);
}
Tensor& NormalTensorFloatOut(const Tensor& mean, double std, Gen gen, Tensor& out) {
  out.resize_(mean.sizes());
  return Normal(out, 0, std, gen).add_(mean);
}
Tensor& NormalFloatTensorOut(double mean, const Tensor& std, Gen gen, Tensor& out) {
  out.resize_(std.sizes());
  return Normal(out, 0, 1, gen).mul_(std).add_(mean);
}
Tensor& NormalTensorTensorOut(const Tensor& mean, const Tensor& std, Gen gen, Tensor& out) {
  out.resize_(at::infer_size(mean.sizes(), std.sizes()));
  return Normal(out, 0, 1, gen).mul_(std).add_(mean);
}

// A permutation of equally likely order: sort by 64 random bits.
Tensor& RandpermOut(int64_t n, Gen gen, Tensor& result) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  result.resize_({n});
  if (n == 0) return result;
  Tensor keys = at::empty({n}, result.options().dtype(at::kLong));
  RandomFromTo(keys, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), gen);
  return result.copy_(keys.argsort());
}

}  // namespace

TORCH_LIBRARY(dendrite, m) {
  m.def("uniform_(Tensor(a!) self, int seed, int offset, float from, float to) -> Tensor(a!)");
  m.def("normal_(Tensor(a!) self, int seed, int offset, float mean, float std) -> Tensor(a!)");
  m.def("log_normal_(Tensor(a!) self, int seed, int offset, float mean, float std) -> Tensor(a!)");
  m.def("cauchy_(Tensor(a!) self, int seed, int offset, float median, float sigma) -> Tensor(a!)");
  m.def("exponential_(Tensor(a!) self, int seed, int offset, float lambd) -> Tensor(a!)");
  m.def("geometric_(Tensor(a!) self, int seed, int offset, float p) -> Tensor(a!)");
  m.def("bernoulli_(Tensor(a!) self, int seed, int offset, float p) -> Tensor(a!)");
  m.def("bernoulli_.Tensor(Tensor(a!) self, int seed, int offset, Tensor p) -> Tensor(a!)");
  m.def("random_(Tensor(a!) self, int seed, int offset, int from, int to) -> Tensor(a!)");
  m.def("native_dropout(Tensor input, int seed, int offset, float p) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(dendrite, CPU, m) {
  m.impl("uniform_", CpuUniform);
  m.impl("normal_", CpuNormal);
  m.impl("log_normal_", CpuLogNormal);
  m.impl("cauchy_", CpuCauchy);
  m.impl("exponential_", CpuExponential);
  m.impl("geometric_", CpuGeometric);
  m.impl("bernoulli_", CpuBernoulli);
  m.impl("bernoulli_.Tensor", CpuBernoulliTensor);
  m.impl("random_", CpuRandom);
  m.impl("native_dropout", CpuDropout);
}

TORCH_LIBRARY_IMPL(dendrite, Meta, m) {
  m.impl(
      "uniform_", +[](Tensor& self, int64_t, int64_t, double, double) -> Tensor& { return self; });
  m.impl(
      "normal_", +[](Tensor& self, int64_t, int64_t, double, double) -> Tensor& { return self; });
  m.impl(
      "log_normal_",
      +[](Tensor& self, int64_t, int64_t, double, double) -> Tensor& { return self; });
  m.impl(
      "cauchy_", +[](Tensor& self, int64_t, int64_t, double, double) -> Tensor& { return self; });
  m.impl("exponential_", +[](Tensor& self, int64_t, int64_t, double) -> Tensor& { return self; });
  m.impl("geometric_", +[](Tensor& self, int64_t, int64_t, double) -> Tensor& { return self; });
  m.impl("bernoulli_", +[](Tensor& self, int64_t, int64_t, double) -> Tensor& { return self; });
  m.impl(
      "bernoulli_.Tensor",
      +[](Tensor& self, int64_t, int64_t, const Tensor&) -> Tensor& { return self; });
  m.impl(
      "random_", +[](Tensor& self, int64_t, int64_t, int64_t, int64_t) -> Tensor& { return self; });
  m.impl("native_dropout", MetaDropout);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", Uniform);
  m.impl("normal_", Normal);
  m.impl("log_normal_", LogNormal);
  m.impl("cauchy_", Cauchy);
  m.impl("exponential_", Exponential);
  m.impl("geometric_", Geometric);
  m.impl("bernoulli_.float", BernoulliFloat);
  m.impl("bernoulli_.Tensor", BernoulliTensor);
  m.impl("bernoulli", Bernoulli);
  m.impl("bernoulli.out", BernoulliOut);
  m.impl("random_.from", RandomFromTo);
  m.impl("random_.to", RandomTo);
  m.impl("random_", Random);
  m.impl("native_dropout", NativeDropout);
  m.impl("normal.Tensor_float", NormalTensorFloat);
  m.impl("normal.float_Tensor", NormalFloatTensor);
  m.impl("normal.Tensor_Tensor", NormalTensorTensor);
  m.impl("normal.Tensor_float_out", NormalTensorFloatOut);
  m.impl("normal.float_Tensor_out", NormalFloatTensorOut);
  m.impl("normal.Tensor_Tensor_out", NormalTensorTensorOut);
  m.impl("randperm.generator_out", RandpermOut);
}

}  // namespace dendrite::aten
