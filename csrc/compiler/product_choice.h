// csrc/compiler/product_choice.h - whether a matrix product runs faster by name (PyTorch's kernel)
// or as the compiler's own code, on this machine.
//
// Which library has the better kernels differs from processor to processor, and on one processor
// from shape to shape, by more than a factor of two either way. So it is measured, once per machine
// and shape: both ways, interleaved, least of several; the answer is kept in the disk cache, so
// that processes agree and later ones do not measure. Shapes are rounded, so that ragged ones are
// few.
#pragma once

#include <map>

#include "csrc/base/status.h"
#include "csrc/compiler/compile_keys.h"
#include "csrc/compiler/snippet_cache.h"
#include "csrc/lowering/registry.h"
#include "csrc/pjrt/client.h"

namespace dendrite::compiler {

// A shape with about the same answer: sizes rounded to 2^i or 3 * 2^i, and large ones
// made smaller: beyond some size nothing changes.
lowering::ProductShape Rounded(const lowering::ProductShape& shape);

class MeasuredProducts final : public lowering::ProductChoice {
 public:
  // All must outlive it.
  MeasuredProducts(const pjrt::Client& client, SnippetCache& cache,
                   const CompilerIdentity& identity)
      : client_(client), cache_(cache), identity_(identity) {}

  // Some 50 ms when measured. False if the kernel by name does not work in this process.
  bool ByName(const lowering::ProductShape& shape) override;
  // What the answers depend on besides the cache, for keys.
  std::string Describe() const;

 private:
  bool Ask(const lowering::ProductShape& shape);

  const pjrt::Client& client_;
  SnippetCache& cache_;
  const CompilerIdentity& identity_;
  std::map<lowering::ProductShape, bool> known_;
};

}  // namespace dendrite::compiler
