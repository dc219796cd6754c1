#include "csrc/compiler/snippet_codec.h"

#include "csrc/base/byte_io.h"

namespace dendrite::compiler {
namespace {

using lowering::LiftedPlace;
using lowering::Snippet;
using lowering::SnippetArg;
using lowering::SnippetOut;
using tape::Dims;
using tape::DType;

constexpr uint8_t kVersion = 1;

void PutDims(ByteWriter& w, const Dims& dims) {
  w.Put<uint64_t>(dims.size());
  for (const int64_t d : dims) w.Put(d);
}

Dims GetDims(ByteReader& r) {
  Dims dims(r.GetCount(sizeof(int64_t)));
  for (int64_t& d : dims) d = r.Get<int64_t>();
  return dims;
}

// Reads an enumerator that must not exceed `last`.
template <typename E>
E GetEnum(ByteReader& r, E last) {
  const auto raw = r.Get<uint8_t>();
  if (raw > static_cast<uint8_t>(last)) r.Fail();
  return static_cast<E>(raw);
}

void PutArg(ByteWriter& w, const SnippetArg& arg) {
  w.Put(static_cast<uint8_t>(arg.kind));
  w.Put(arg.storage);
  w.Put(static_cast<uint8_t>(arg.dtype));
  PutDims(w, arg.dims);
  w.Put(arg.byte_offset);
  w.Put<uint8_t>(arg.donated);
  w.Put<uint8_t>(arg.read);
}

SnippetArg GetArg(ByteReader& r) {
  SnippetArg arg;
  arg.kind = GetEnum(r, SnippetArg::Kind::kLiftedComplex);
  arg.storage = r.Get<int32_t>();
  arg.dtype = GetEnum(r, DType::kU64);
  arg.dims = GetDims(r);
  arg.byte_offset = r.Get<int64_t>();
  arg.donated = r.Get<uint8_t>() != 0;
  arg.read = r.Get<uint8_t>() != 0;
  return arg;
}

void PutOut(ByteWriter& w, const SnippetOut& out) {
  w.Put(static_cast<uint8_t>(out.kind));
  w.Put(out.storage);
  w.Put(static_cast<uint8_t>(out.dtype));
  PutDims(w, out.dims);
  w.Put(out.aliased_arg);
}

SnippetOut GetOut(ByteReader& r) {
  SnippetOut out;
  out.kind = GetEnum(r, SnippetOut::Kind::kIndexError);
  out.storage = r.Get<int32_t>();
  out.dtype = GetEnum(r, DType::kU64);
  out.dims = GetDims(r);
  out.aliased_arg = r.Get<int32_t>();
  return out;
}

bool NoneNegative(const Dims& dims) {
  for (const int64_t d : dims) {
    if (d < 0) return false;
  }
  return true;
}

bool InRange(int32_t index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

// Every index leads somewhere.
bool IsConsistent(const Snippet& s, size_t num_storages, size_t num_lifted,
                  size_t num_lifted_offsets) {
  for (const SnippetArg& arg : s.args) {
    if (!NoneNegative(arg.dims) || arg.byte_offset < 0) return false;
    if (arg.kind == SnippetArg::Kind::kStorage && !InRange(arg.storage, num_storages)) return false;
  }
  for (const SnippetOut& out : s.outs) {
    if (!NoneNegative(out.dims) || out.aliased_arg < -1) return false;
    if (out.kind == SnippetOut::Kind::kStorage && !InRange(out.storage, num_storages)) return false;
    if (out.aliased_arg >= 0 && !InRange(out.aliased_arg, s.args.size())) return false;
  }
  for (const auto& check : s.offset_checks) {
    if (!NoneNegative(check.form) || check.form.size() != check.extent.size()) return false;
  }
  return s.lifted.size() == num_lifted && s.lifted_offsets.size() == num_lifted_offsets;
}

}  // namespace

std::string EncodeSnippet(const Snippet& s, std::string_view stablehlo_digest) {
  ByteWriter w;
  w.Put(kVersion);
  w.PutString(stablehlo_digest);
  w.Put<uint64_t>(s.args.size());
  for (const SnippetArg& arg : s.args) PutArg(w, arg);
  w.Put<uint64_t>(s.outs.size());
  for (const SnippetOut& out : s.outs) PutOut(w, out);
  w.Put<uint64_t>(s.lifted.size());
  for (const LiftedPlace& place : s.lifted) {
    w.Put(static_cast<uint8_t>(place.kind));
    w.Put(place.index);
  }
  w.Put<uint64_t>(s.lifted_offsets.size());
  for (const int32_t position : s.lifted_offsets) w.Put(position);
  w.Put<uint64_t>(s.offset_checks.size());
  for (const auto& check : s.offset_checks) {
    PutDims(w, check.form);
    PutDims(w, check.extent);
  }
  w.Put<uint64_t>(s.custom_calls.size());
  for (const std::string& name : s.custom_calls) w.PutString(name);
  w.Put(s.expected_temp_bytes);
  return w.Take();
}

Result<CachedSnippet> DecodeSnippet(std::string_view bytes, size_t num_storages, size_t num_lifted,
                                    size_t num_lifted_offsets) {
  ByteReader r(bytes);
  CachedSnippet cached;
  Snippet& s = cached.snippet;
  if (r.Get<uint8_t>() != kVersion) return DataLoss("a snippet of another format");
  cached.stablehlo_digest = r.GetString();
  for (uint64_t n = r.GetCount(1); n > 0 && r.ok(); --n) s.args.push_back(GetArg(r));
  for (uint64_t n = r.GetCount(1); n > 0 && r.ok(); --n) s.outs.push_back(GetOut(r));
  for (uint64_t n = r.GetCount(5); n > 0 && r.ok(); --n) {
    LiftedPlace place;
    place.kind = GetEnum(r, SnippetArg::Kind::kLiftedComplex);
    place.index = r.Get<int32_t>();
    s.lifted.push_back(place);
  }
  for (uint64_t n = r.GetCount(4); n > 0; --n) s.lifted_offsets.push_back(r.Get<int32_t>());
  for (uint64_t n = r.GetCount(16); n > 0 && r.ok(); --n) {
    Dims form = GetDims(r);
    Dims extent = GetDims(r);
    s.offset_checks.push_back({std::move(form), std::move(extent)});
  }
  for (uint64_t n = r.GetCount(8); n > 0 && r.ok(); --n) s.custom_calls.emplace_back(r.GetString());
  s.expected_temp_bytes = r.Get<int64_t>();
  if (!r.ok() || !r.at_end()) return DataLoss("a truncated or damaged snippet");
  if (!IsConsistent(s, num_storages, num_lifted, num_lifted_offsets)) {
    return DataLoss("a snippet that does not fit its tape");
  }
  return cached;
}

}  // namespace dendrite::compiler
