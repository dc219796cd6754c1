#include "csrc/lowering/check_failure.h"

#include <array>
#include <string>

namespace dendrite::lowering {
namespace {

struct Words {
  std::string_view prefix;  // of the operator's name, without "aten."
  Code code;
  std::string_view text;
};

// The first row that matches counts.
constexpr std::array kWords = {
    Words{"div", Code::kInternal, "ZeroDivisionError"},
    Words{"floor_divide", Code::kInternal, "ZeroDivisionError"},
    Words{"remainder", Code::kInternal, "ZeroDivisionError"},
    Words{"fmod", Code::kInternal, "ZeroDivisionError"},
    Words{"_foreach_div", Code::kInternal, "ZeroDivisionError"},
    Words{"binary_cross_entropy", Code::kInternal,
          "all elements of input should be between 0 and 1"},
    Words{"nll_loss", Code::kOutOfRange, "Target is out of bounds."},
    Words{"multi_margin_loss", Code::kInternal, "target out of range"},
    Words{"max_unpool", Code::kInternal, "Found an invalid max index"},
    Words{"masked_scatter", Code::kInternal,
          "masked_scatter: expected self and source to have the number of elements that mask asks "
          "for: Number of elements of source < number of ones in mask"},
    Words{"repeat_interleave", Code::kInternal,
          "repeats can not be negative, and must add up to output_size"},
    Words{"lu_unpack", Code::kInternal, "pivots passed to lu_unpack must be rows of the matrix"},
    Words{"linalg_lu_solve", Code::kInternal, "pivots must be rows of the matrix"},
    Words{"hist", Code::kInternal, "the range of the histogram is not finite"},
    Words{"segment_reduce", Code::kInternal,
          "segment_reduce: lengths can not be negative, and must add up to the size of the axis"},
    Words{"_embedding_bag", Code::kInternal,
          "embedding_bag: Expected idx >= 0 && idx < num_embeddings, and offsets that begin with 0 "
          "and lie within the indices"},
    Words{"index_select", Code::kOutOfRange, "index out of range in self"},
    Words{"index_add", Code::kOutOfRange, "index out of range in self"},
    Words{"index_", Code::kOutOfRange, "index is out of bounds for its dimension"},
    Words{"index.", Code::kOutOfRange, "index is out of bounds for its dimension"},
    Words{"_unsafe_index", Code::kOutOfRange, "index is out of bounds for its dimension"},
    Words{"gather", Code::kInternal, "index is out of bounds for the dimension that it gathers"},
    Words{"scatter", Code::kInternal, "index is out of bounds for the dimension that it scatters"},
    Words{"take", Code::kOutOfRange, "out of range: tried to access an index beyond the tensor"},
    Words{"put", Code::kOutOfRange, "out of range: tried to access an index beyond the tensor"},
};

}  // namespace

Status CheckFailure(std::string_view op) {
  if (op.starts_with("aten.")) op.remove_prefix(5);
  for (const Words& words : kWords) {
    if (op.starts_with(words.prefix)) return Status(words.code, std::string(words.text));
  }
  return OutOfRange("index out of range in self");
}

}  // namespace dendrite::lowering
