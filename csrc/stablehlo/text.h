// csrc/stablehlo/text.h - spelling of values, types, numbers and attributes in MLIR text.
//
// Internal to csrc/stablehlo, but for attributes: lowerings spell those of custom calls with it.
// Stateless; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "csrc/stablehlo/builder.h"

namespace dendrite::stablehlo {

std::string Ref(const Value& v);                           // "%7"
std::string Refs(const std::vector<Value>& vs);            // "%7, %8"
std::string TypeOf(const Value& v);                        // "tensor<2xf32>"
std::string TypesOf(const std::vector<Value>& vs);         // "tensor<2xf32>, tensor<i1>"
std::string ListText(const Dims& v);                       // "[0, 1]"
std::string ArrayText(const Dims& v);                      // "array<i64: 0, 1>"
std::string PairsText(const Dims& low, const Dims& high);  // "dense<[[0, 1]]> : tensor<1x2xi64>"
// "(operand types) -> result types"
std::string Signature(const std::vector<Value>& operands, const std::vector<Value>& results);

// Literals that parse back to exactly the value, converted to `dtype` first: floats round to
// nearest even (through f32 for the 16-bit types, as PyTorch does), integers wrap.
std::string FloatLiteral(DType dtype, double v);
std::string IntLiteral(DType dtype, int64_t v);
std::string NumberLiteral(DType dtype, double v);
DType ComplexPart(DType dtype);  // f32 of c64, f64 of c128

}  // namespace dendrite::stablehlo
