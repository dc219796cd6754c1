// csrc/lowering/check_failure.h - what a record whose run-time check failed says to the user.
#pragma once

#include <string_view>

#include "csrc/base/status.h"

namespace dendrite::lowering {

// The error that PyTorch's CPU kernel raises where the lowering of `op` used CheckIndices, in its
// words as far as they do not quote the offending value: OUT_OF_RANGE where it is an IndexError.
Status CheckFailure(std::string_view op);

}  // namespace dendrite::lowering
