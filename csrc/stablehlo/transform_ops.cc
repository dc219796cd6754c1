// Fourier transforms and matrix factorisations of stablehlo::Builder.
#include "csrc/stablehlo/builder.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {

Value Builder::Fft(const Value& x, FftKind kind, const Dims& lengths) {
  if (!Expect(x.defined(), "fft", "undefined operand")) return x;
  const auto rank = static_cast<int64_t>(lengths.size());
  const bool real_in = kind == FftKind::kRealToComplex, real_out = kind == FftKind::kComplexToReal;
  const bool types = real_in ? x.dtype == DType::kF32 || x.dtype == DType::kF64
                             : x.dtype == DType::kC64 || x.dtype == DType::kC128;
  if (!Expect(types && rank >= 1 && rank <= 3 && x.rank() >= rank, "fft", TypeOf(x))) return x;
  DType out = x.dtype;
  if (real_in) out = x.dtype == DType::kF64 ? DType::kC128 : DType::kC64;
  if (real_out) out = ComplexPart(x.dtype);
  Dims dims = x.dims;
  for (int64_t d = 0; d < rank; ++d) {
    const bool halved = real_out && d == rank - 1;
    const int64_t length = lengths[d];
    int64_t& size = dims[x.rank() - rank + d];
    if (!Expect(size == (halved ? length / 2 + 1 : length), "fft",
                TypeOf(x) + " by " + ListText(lengths))) {
      return x;
    }
    size = length;
  }
  if (real_in) dims.back() = lengths.back() / 2 + 1;
  static constexpr const char* kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  Value y = NewValue(out, dims);
  Append({y}, "\"stablehlo.fft\"(" + Ref(x) + ") <{fft_type = #stablehlo<fft_type " +
                  kNames[static_cast<int>(kind)] + ">, fft_length = " + ArrayText(lengths) +
                  "}> : " + Signature({x}, {y}));
  return y;
}

Value Builder::Cholesky(const Value& x, bool lower) {
  if (!Expect(x.defined(), "cholesky", "undefined operand")) return x;
  const int64_t rank = x.rank();
  if (!Expect(rank >= 2 && x.dims[rank - 1] == x.dims[rank - 2], "cholesky", TypeOf(x))) return x;
  Value y = NewValue(x.dtype, x.dims);
  Append({y}, "\"stablehlo.cholesky\"(" + Ref(x) + ") <{lower = " + (lower ? "true" : "false") +
                  "}> : " + Signature({x}, {y}));
  return y;
}

}  // namespace dendrite::stablehlo
