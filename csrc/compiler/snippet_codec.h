// csrc/compiler/snippet_codec.h - the description of a lowered snippet as bytes, for the cache.
//
// Everything in lowering::Snippet but the StableHLO text, of which the digest stands in: it leads
// to the executable. Version byte first; every bound and every index is checked on the way in,
// since what is decoded addresses arguments and memory. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "csrc/base/status.h"
#include "csrc/lowering/snippet.h"

namespace dendrite::compiler {

struct CachedSnippet {
  lowering::Snippet snippet;  // stablehlo is empty
  std::string stablehlo_digest;
};

std::string EncodeSnippet(const lowering::Snippet& snippet, std::string_view stablehlo_digest);
// DATA_LOSS if the bytes are not a snippet of a tape with these counts.
Result<CachedSnippet> DecodeSnippet(std::string_view bytes, size_t num_storages, size_t num_lifted,
                                    size_t num_lifted_offsets);

}  // namespace dendrite::compiler
