// csrc/tape/key.h - the canonical key of a tape.
//
// Two tapes with equal keys are the same computation: the snippet made of one serves the other,
// whatever their addresses, positions in the program, lifted values, sizes of storages beyond what
// is touched, and source lines. Nothing is hashed here: caches hash the key and compare it in full.
// Stateless; any thread.
#pragma once

#include <string>

#include "csrc/tape/record.h"

namespace dendrite::tape {

// `host_visible` as in lowering::SnippetOptions: on opaque targets a snippet takes and returns
// whole buffers, so their sizes and forms belong to the key; on host-visible ones only the touched
// windows do.
std::string CanonicalKey(const Tape& tape, bool host_visible);

}  // namespace dendrite::tape
