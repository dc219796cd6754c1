// csrc/lowering/golden_testing.h - for tests: signatures in a few words, and lowered text against a
// file.
//
// SignatureMaker builds a Signature argument by argument, in schema order. Golden collects the
// StableHLO of named cases and compares it with tests/lowering/<family>.txt;
// DENDRITE_UPDATE_GOLDENS=1 writes the file instead, and the change is reviewed as a diff.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

class SignatureMaker {
 public:
  explicit SignatureMaker(std::string op) { sig_.op = std::move(op); }

  SignatureMaker& In(const Dims& sizes, DType dtype = DType::kF32) {
    Arg& a = Add(Arg::Kind::kTensor);
    a.ints = {Operand(sizes, dtype, true)};
    return *this;
  }
  // A list of tensors; an empty shape list gives an empty list.
  SignatureMaker& Ins(const std::vector<Dims>& sizes, DType dtype = DType::kF32) {
    Dims at;
    for (const Dims& one : sizes) at.push_back(Operand(one, dtype, true));
    Add(Arg::Kind::kTensorList).ints = std::move(at);
    return *this;
  }
  SignatureMaker& String(std::string v) { return Add(Arg::Kind::kString).s = std::move(v), *this; }
  SignatureMaker& None() { return Add(Arg::Kind::kNone), *this; }
  SignatureMaker& Int(int64_t v) { return Add(Arg::Kind::kInt).i = v, *this; }
  SignatureMaker& Bool(bool v) { return Add(Arg::Kind::kBool).i = v, *this; }
  SignatureMaker& Float(double v) { return Add(Arg::Kind::kFloat).d = v, *this; }
  SignatureMaker& Ints(Dims v) { return Add(Arg::Kind::kIntList).ints = std::move(v), *this; }
  SignatureMaker& Mask(Dims v) { return Add(Arg::Kind::kBoolList).ints = std::move(v), *this; }
  SignatureMaker& Type(DType t) { return Add(Arg::Kind::kDType).dtype = t, *this; }
  SignatureMaker& Lifted(DType category) {
    Arg& a = Add(Arg::Kind::kLifted);
    a.dtype = category;
    a.i = sig_.num_lifted++;
    return *this;
  }
  SignatureMaker& Out(const Dims& sizes, DType dtype = DType::kF32) {
    sig_.results.push_back(Operand(sizes, dtype, false));
    return *this;
  }
  SignatureMaker& NoOut() { return sig_.results.push_back(-1), *this; }
  const tape::Signature& sig() const { return sig_; }

 private:
  Arg& Add(Arg::Kind kind) {
    sig_.args.emplace_back();
    sig_.args.back().kind = kind;
    return sig_.args.back();
  }
  int32_t Operand(const Dims& sizes, DType dtype, bool read) {
    tape::OperandType o;
    o.view.dtype = dtype;
    o.view.sizes = sizes;
    o.view.strides = tape::ContiguousStrides(sizes);
    o.read = read;
    o.written = !read;
    sig_.operands.push_back(o);
    return static_cast<int32_t>(sig_.operands.size()) - 1;
  }
  tape::Signature sig_;
};

// The module that `sig` lowers to by itself: operands that are read, then lifted values; its
// results as the lowering gives them, then the index check if there is one.
inline Result<std::string> LowerAlone(const tape::Signature& sig,
                                      const LoweringTraits& traits = {}) {
  LowerFn fn = Lookup(sig.op);
  if (fn == nullptr) return Unimplemented(sig.op + " has no lowering");
  DENDRITE_RETURN_IF_ERROR(TryLower(sig, traits));
  Builder b;
  std::vector<Value> inputs, lifted;
  for (const tape::OperandType& o : sig.operands) {
    inputs.push_back(o.read ? b.Argument(o.view.dtype, o.view.sizes) : Value{});
  }
  for (const Arg& a : sig.args) {
    if (a.kind == Arg::Kind::kLifted) {
      lifted.push_back(b.Argument(tape::IsFloat(a.dtype) ? DType::kF64 : DType::kI64, {}));
    }
  }
  Emitter e(sig, b, traits, inputs, lifted);
  fn(e);
  std::vector<Value> outs;
  for (int k = 0; k < e.num_results(); ++k) {
    if (e.Wanted(k)) outs.push_back(e.results()[k]);
  }
  if (e.index_check().defined()) outs.push_back(e.index_check());
  return b.Finish(outs);
}

class Golden {
 public:
  explicit Golden(std::string family) : family_(std::move(family)) {}
  // Compares what was collected; call it last.
  void Check() {
    const char* root = std::getenv("DENDRITE_SOURCE_DIR");
    ASSERT_NE(root, nullptr) << "DENDRITE_SOURCE_DIR is not set";
    const std::string path = std::string(root) + "/tests/lowering/" + family_ + ".txt";
    if (std::getenv("DENDRITE_UPDATE_GOLDENS") != nullptr) {
      std::ofstream(path) << text_;
      return;
    }
    std::ifstream in(path);
    ASSERT_TRUE(in.good()) << path << " is missing; DENDRITE_UPDATE_GOLDENS=1 makes it";
    std::stringstream want;
    want << in.rdbuf();
    EXPECT_EQ(text_, want.str()) << "DENDRITE_UPDATE_GOLDENS=1 accepts the change";
  }
  void Add(const std::string& name, const SignatureMaker& maker,
           const LoweringTraits& traits = {}) {
    Result<std::string> r = LowerAlone(maker.sig(), traits);
    ASSERT_TRUE(r.ok()) << name << ": " << r.status().ToString();
    text_ += "// " + name + ": " + maker.sig().op + "\n" + *r + "\n";
  }

 private:
  std::string family_, text_;
};

}  // namespace dendrite::lowering
