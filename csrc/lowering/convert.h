// csrc/lowering/convert.h - conversions between element types as PyTorch makes them. Stateless; any
// thread.
#pragma once

#include "csrc/stablehlo/builder.h"

namespace dendrite::lowering {

// The value converted to `dtype` (Tensor.to).
stablehlo::Value ConvertLikeTorch(stablehlo::Builder& b, const stablehlo::Value& v,
                                  tape::DType dtype);

// The same bytes as elements of another type (Tensor.view(dtype)); the value's row-major order is
// kept, its dimensions are not. UNIMPLEMENTED where the number of bytes does not divide.
stablehlo::Value Reinterpret(stablehlo::Builder& b, const stablehlo::Value& v, tape::DType dtype);

}  // namespace dendrite::lowering
