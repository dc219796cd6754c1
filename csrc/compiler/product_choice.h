// csrc/compiler/product_choice.h - whether matrix products run faster by name (PyTorch's kernel) or
// as the compiler's own code, on this machine.
//
// Which library has the better kernels differs from processor to processor by more than a factor of
// two either way. So it is measured, once per machine: one product both ways, interleaved, least of
// several; the answer is kept in the disk cache, so that processes agree and later ones do not
// measure.
#pragma once

#include "csrc/base/status.h"
#include "csrc/compiler/compile_keys.h"
#include "csrc/compiler/snippet_cache.h"
#include "csrc/pjrt/client.h"

namespace dendrite::compiler {

// Some 50 ms when measured. False if the kernel by name does not work in this process. Any thread.
bool ProductsByName(const pjrt::Client& client, SnippetCache& cache,
                    const CompilerIdentity& identity);

}  // namespace dendrite::compiler
