// csrc/device/error.h - the one place that turns a Status into a PyTorch error.
#pragma once

#include <c10/util/Exception.h>

#include "csrc/base/status.h"

namespace dendrite::device {

// Throws: IndexError for OUT_OF_RANGE, OutOfMemoryError for RESOURCE_EXHAUSTED, NotImplementedError
// for UNIMPLEMENTED, RuntimeError otherwise.
inline void ThrowIfError(const Status& status) {
  if (status.ok()) return;
  const std::string& m = status.message();
  TORCH_CHECK_INDEX(status.code() != Code::kOutOfRange, m);
  TORCH_CHECK_NOT_IMPLEMENTED(status.code() != Code::kUnimplemented, m);
  TORCH_CHECK_WITH(OutOfMemoryError, status.code() != Code::kResourceExhausted, m);
  TORCH_CHECK(false, m);
}

template <typename T>
T ValueOrThrow(Result<T> result) {
  ThrowIfError(result.status());
  return std::move(result).value();
}

}  // namespace dendrite::device
