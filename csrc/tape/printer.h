// csrc/tape/printer.h - a tape as text for people: goldens, explain(), error messages.
//
//   s0: 64 bytes
//   0: aten.add.Tensor(s0[4,4], s1[4,4]:1,4 +8, lifted f64 #0) -> s2[4,4]
//
// Strides are shown where the view is not contiguous. Stateless; any thread.
#pragma once

#include <string>

#include "csrc/tape/record.h"

namespace dendrite::tape {

std::string ToString(const View& view);
std::string ToString(const Record& record);
std::string ToString(const Tape& tape);

}  // namespace dendrite::tape
