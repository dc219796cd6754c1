#include "csrc/tape/dtype.h"

namespace dendrite::tape {

int64_t ItemSize(DType t) {
  static constexpr int8_t kSizes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8};
  return kSizes[static_cast<int>(t)];
}

const char* Name(DType t) {
  static constexpr const char* kNames[] = {
      "undefined", "i1",  "ui8", "i8",           "i16",          "i32",  "i64",  "f16",
      "bf16",      "f32", "f64", "complex<f32>", "complex<f64>", "ui16", "ui32", "ui64"};
  return kNames[static_cast<int>(t)];
}

}  // namespace dendrite::tape
