// tests/lowering/lowering_harness.cc - a C interface that lowers a tape written as text, compiles
// it with a plugin and runs it on the caller's memory, so that Python tests can compare lowerings
// with PyTorch.
//
// The text has one item a line, fields separated by blanks:
//   storage <bytes> <0|1 live> [<form dtype> <dims>]
//   op <name>                      begins a record
//   operand <dtype> <sizes> <strides> <flags> <storage> <offset> <offset slot> <lifted slot>
//   arg <kind> <dtype> <i> <d> <im> <ints> <floats> [<string>]
//   results <operand indices>      ends the record
//   lifted <i> <d> <im>            the next lifted value of the tape
//   lifted_offset <value>
// Lists are comma-separated, "-" when empty; flags are letters of "rwncg" (read, written, wrapped
// number, conj, neg) or "-". Not thread safe.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "csrc/lowering/registry.h"
#include "csrc/lowering/snippet.h"
#include "csrc/pjrt/client.h"
#include "csrc/tape/verifier.h"

namespace dendrite {
namespace {

using lowering::Snippet;
using lowering::SnippetArg;
using lowering::SnippetOut;
using tape::Dims;
using tape::DType;

DType ParseDType(const std::string& name) {
  for (int t = 1; t <= static_cast<int>(DType::kU64); ++t) {
    if (name == tape::Name(static_cast<DType>(t))) return static_cast<DType>(t);
  }
  return DType::kUndefined;
}

template <typename T>
std::vector<T> ParseList(const std::string& text) {
  std::vector<T> out;
  if (text == "-") return out;
  std::stringstream in(text);
  std::string item;
  while (std::getline(in, item, ',')) {
    if constexpr (std::is_same_v<T, double>) {
      out.push_back(std::strtod(item.c_str(), nullptr));
    } else {
      out.push_back(static_cast<T>(std::strtoll(item.c_str(), nullptr, 10)));
    }
  }
  return out;
}

struct Program {
  tape::Tape tape;
  std::vector<std::unique_ptr<tape::Signature>> signatures;
  std::vector<bool> live;
  std::vector<tape::Lifted> lifted;
  std::vector<int64_t> lifted_offsets;
};

void ParseOperand(std::istringstream& in, tape::Record* record, tape::Signature* sig) {
  std::string dtype, sizes, strides, flags;
  tape::OperandType type;
  tape::OperandRef ref;
  in >> dtype >> sizes >> strides >> flags >> ref.storage >> ref.offset >> ref.offset_slot >>
      type.lifted_slot;
  type.view.dtype = ParseDType(dtype);
  type.view.sizes = ParseList<int64_t>(sizes);
  type.view.strides = ParseList<int64_t>(strides);
  const auto has = [&](char c) { return flags.find(c) != std::string::npos; };
  type.read = has('r');
  type.written = has('w');
  type.is_wrapped_number = has('n');
  type.view.conj = has('c');
  type.view.neg = has('g');
  sig->operands.push_back(std::move(type));
  record->operands.push_back(ref);
}

void ParseArg(std::istringstream& in, tape::Signature* sig) {
  int kind = 0;
  std::string dtype, d, im, ints, floats;
  tape::Arg arg;
  in >> kind >> dtype >> arg.i >> d >> im >> ints >> floats >> arg.s;
  arg.kind = static_cast<tape::Arg::Kind>(kind);
  arg.dtype = ParseDType(dtype);
  arg.d = std::strtod(d.c_str(), nullptr);
  arg.im = std::strtod(im.c_str(), nullptr);
  arg.ints = ParseList<int64_t>(ints);
  arg.floats = ParseList<double>(floats);
  if (arg.kind == tape::Arg::Kind::kLifted) ++sig->num_lifted;
  if (arg.kind == tape::Arg::Kind::kLiftedList) {
    sig->num_lifted += static_cast<int32_t>(arg.ints.size());
  }
  sig->args.push_back(std::move(arg));
}

Program Parse(const char* text) {
  Program p;
  std::istringstream lines(text);
  std::string line, word;
  while (std::getline(lines, line)) {
    std::istringstream in(line);
    if (!(in >> word)) continue;
    if (word == "storage") {
      tape::StorageInfo info;
      int live = 0;
      std::string dtype, dims;
      in >> info.nbytes >> live;
      if (in >> dtype >> dims) {
        info.form_dtype = ParseDType(dtype);
        info.form_dims = ParseList<int64_t>(dims);
      }
      p.tape.storages.push_back(info);
      p.live.push_back(live != 0);
    } else if (word == "op") {
      p.signatures.push_back(std::make_unique<tape::Signature>());
      in >> p.signatures.back()->op;
      p.tape.records.emplace_back();
      p.tape.records.back().sig = p.signatures.back().get();
      p.tape.records.back().first_lifted = p.tape.num_lifted;
    } else if (word == "operand") {
      ParseOperand(in, &p.tape.records.back(), p.signatures.back().get());
    } else if (word == "arg") {
      ParseArg(in, p.signatures.back().get());
    } else if (word == "results") {
      std::string list;
      in >> list;
      tape::Signature& sig = *p.signatures.back();
      sig.results = ParseList<int32_t>(list);
      for (const tape::OperandType& o : sig.operands) sig.num_lifted += o.lifted_slot >= 0;
      p.tape.num_lifted += sig.num_lifted;
    } else if (word == "lifted") {
      tape::Lifted value;
      std::string d, im;
      in >> value.i >> d >> im;
      value.d = std::strtod(d.c_str(), nullptr);
      value.im = std::strtod(im.c_str(), nullptr);
      p.lifted.push_back(value);
    } else if (word == "lifted_offset") {
      int64_t offset = 0;
      in >> offset;
      p.lifted_offsets.push_back(offset);
    }
  }
  p.tape.num_lifted_offsets = static_cast<int32_t>(p.lifted_offsets.size());
  return p;
}

// The packed vector of one kind, as the plugin wants it.
std::vector<char> Pack(const Program& p, const Snippet& s, const SnippetArg& arg) {
  std::vector<char> bytes(arg.dims[0] * tape::ItemSize(arg.dtype));
  const auto put = [&](int32_t index, const auto& value) {
    std::memcpy(bytes.data() + index * sizeof(value), &value, sizeof(value));
  };
  for (size_t i = 0; i < s.lifted.size(); ++i) {
    if (s.lifted[i].kind != arg.kind || s.lifted[i].index < 0) continue;
    const tape::Lifted& v = p.lifted[i];
    if (arg.kind == SnippetArg::Kind::kLiftedInt) {
      put(s.lifted[i].index, v.i);
    } else if (arg.kind == SnippetArg::Kind::kLiftedComplex) {
      const double pair[2] = {v.d, v.im};
      std::memcpy(bytes.data() + s.lifted[i].index * 16, pair, 16);
    } else {
      put(s.lifted[i].index, v.d);
    }
  }
  if (arg.kind == SnippetArg::Kind::kLiftedInt) {
    for (size_t i = 0; i < s.lifted_offsets.size(); ++i) {
      put(s.lifted_offsets[i], p.lifted_offsets[i]);
    }
  }
  return bytes;
}

Result<int> Launch(const pjrt::Client& client, const Program& p, const Snippet& s,
                   char* const* storages, bool host_visible) {
  DENDRITE_ASSIGN_OR_RETURN(pjrt::Executable executable, client.Compile(s.stablehlo));
  std::vector<std::vector<char>> packed;
  std::vector<pjrt::Buffer> buffers;
  for (const SnippetArg& arg : s.args) {
    const void* data = nullptr;
    pjrt::HostBuffer semantics = pjrt::HostBuffer::kCopy;
    if (arg.kind == SnippetArg::Kind::kStorage) {
      data = storages[arg.storage] + arg.byte_offset;
      if (host_visible) {
        semantics =
            arg.donated ? pjrt::HostBuffer::kMutableZeroCopy : pjrt::HostBuffer::kImmutableZeroCopy;
      }
    } else {
      packed.push_back(Pack(p, s, arg));
      data = packed.back().data();
    }
    DENDRITE_ASSIGN_OR_RETURN(
        pjrt::Buffer buffer,
        client.FromHost(data, pjrt::ElementTypeFromDType(static_cast<uint8_t>(arg.dtype)), arg.dims,
                        semantics));
    buffers.push_back(std::move(buffer));
  }
  std::vector<pjrt::Buffer*> args;
  for (pjrt::Buffer& b : buffers) args.push_back(&b);
  std::vector<pjrt::Buffer> outputs;
  DENDRITE_ASSIGN_OR_RETURN(pjrt::Event done, executable.Execute(args, &outputs));
  DENDRITE_RETURN_IF_ERROR(done.Await());
  int32_t index_error = -1;
  for (size_t i = 0; i < s.outs.size(); ++i) {
    const SnippetOut& out = s.outs[i];
    if (out.kind == SnippetOut::Kind::kIndexError) {
      DENDRITE_RETURN_IF_ERROR(outputs[i].ToHost(&index_error, sizeof index_error));
      continue;
    }
    const size_t bytes = tape::NumElements(out.dims) * tape::ItemSize(out.dtype);
    if (!host_visible) {
      DENDRITE_RETURN_IF_ERROR(outputs[i].ToHost(storages[out.storage], bytes));
      continue;
    }
    DENDRITE_ASSIGN_OR_RETURN(void* where, outputs[i].UnsafePointer());
    const SnippetArg& arg = s.args[out.aliased_arg];
    if (bytes > 0 && where != storages[out.storage] + arg.byte_offset) {
      return Internal("output " + std::to_string(i) + " did not land in its storage");
    }
  }
  return index_error;
}

Result<int> Run(const pjrt::Client& client, const char* text, char* const* storages,
                bool host_visible, bool kernels_by_name, Snippet* snippet) {
  const Program p = Parse(text);
  DENDRITE_RETURN_IF_ERROR(tape::Verify(p.tape));
  lowering::SnippetOptions options;
  options.host_visible = host_visible;
  options.live = p.live;
  options.traits.kernels_by_name = kernels_by_name;
  DENDRITE_ASSIGN_OR_RETURN(*snippet, lowering::LowerTape(p.tape, options));
  for (size_t i = 0; i < p.lifted_offsets.size(); ++i) {
    if (!CheckLiftedOffset(snippet->offset_checks[i], p.lifted_offsets[i])) {
      return OutOfRange("lifted offset " + std::to_string(i));
    }
  }
  return Launch(client, p, *snippet, storages, host_visible);
}

std::string g_message, g_stablehlo;
std::shared_ptr<pjrt::Client> g_client;

}  // namespace
}  // namespace dendrite

extern "C" {

#define DENDRITE_HARNESS_EXPORT __attribute__((visibility("default")))

DENDRITE_HARNESS_EXPORT const char* dendrite_harness_message() {
  return dendrite::g_message.c_str();
}
DENDRITE_HARNESS_EXPORT const char* dendrite_harness_stablehlo() {
  return dendrite::g_stablehlo.c_str();
}

// 0, or an error: see dendrite_harness_message.
DENDRITE_HARNESS_EXPORT int dendrite_harness_open(const char* plugin) {
  auto client = dendrite::pjrt::Client::Create(plugin);
  if (!client.ok()) {
    dendrite::g_message = client.status().ToString();
    return 1;
  }
  dendrite::g_client = *client;
  return 0;
}

// 0: done (*index_error as the snippet returned it, -1: none); otherwise the error's code.
DENDRITE_HARNESS_EXPORT int dendrite_harness_run(const char* text, char* const* storages,
                                                 int host_visible, int kernels_by_name,
                                                 int* index_error) {
  dendrite::lowering::Snippet snippet;
  auto result = dendrite::Run(*dendrite::g_client, text, storages, host_visible != 0,
                              kernels_by_name != 0, &snippet);
  dendrite::g_stablehlo = snippet.stablehlo;
  if (!result.ok()) {
    dendrite::g_message = result.status().ToString();
    return static_cast<int>(result.status().code());
  }
  *index_error = *result;
  return 0;
}

// Names of all operators with a lowering, one a line.
DENDRITE_HARNESS_EXPORT const char* dendrite_harness_ops() {
  dendrite::g_message.clear();
  for (const std::string& op : dendrite::lowering::RegisteredOps()) {
    dendrite::g_message += op + "\n";
  }
  return dendrite::g_message.c_str();
}

}  // extern "C"
