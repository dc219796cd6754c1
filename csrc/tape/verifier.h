// csrc/tape/verifier.h - is a tape well formed? Run between passes in debug builds and in tests.
//
// Checks what the types cannot: indices in range, sizes and strides of equal length, views inside
// of their storages, results among the written operands, lifted slots in range. Stateless; any
// thread.
#pragma once

#include "csrc/base/status.h"
#include "csrc/tape/record.h"

namespace dendrite::tape {

// INTERNAL with the record's number and what is wrong.
Status Verify(const Signature& sig);
Status Verify(const Tape& tape);

}  // namespace dendrite::tape
