#include "csrc/engine/op.h"

#include <cstring>

namespace dendrite::engine {
namespace {

class Hash {
 public:
  void Word(uint64_t w) {
    h_ = (h_ ^ w) * 0xff51afd7ed558ccdu;
    h_ ^= h_ >> 29;
  }
  void Text(const std::string& s) {
    Word(s.size());
    for (char c : s) Word(static_cast<unsigned char>(c));
  }
  void Real(double d) {
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof bits);
    Word(bits);
  }
  void List(const tape::Dims& dims) {
    Word(dims.size());
    for (int64_t d : dims) Word(static_cast<uint64_t>(d));
  }
  uint64_t value() const { return h_; }

 private:
  uint64_t h_ = 0x2545f4914f6cdd1du;
};

}  // namespace

uint64_t ContentHash(const tape::Signature& sig) {
  Hash hash;
  hash.Text(sig.op);
  for (const auto& arg : sig.args) {
    hash.Word(static_cast<uint64_t>(arg.kind) << 8 | static_cast<uint64_t>(arg.dtype));
    hash.Word(static_cast<uint64_t>(arg.i));
    hash.Real(arg.d);
    hash.Real(arg.im);
    hash.List(arg.ints);
    for (double d : arg.floats) hash.Real(d);
    hash.Text(arg.s);
  }
  for (const auto& operand : sig.operands) {
    hash.Word(static_cast<uint64_t>(operand.view.dtype));
    hash.List(operand.view.sizes);
    hash.List(operand.view.strides);
  }
  return hash.value();
}

}  // namespace dendrite::engine
