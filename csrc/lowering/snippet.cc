#include "csrc/lowering/snippet.h"

#include <optional>

#include "csrc/lowering/aten_kernel.h"
#include "csrc/lowering/convert.h"
#include "csrc/lowering/snippet_lifted.h"
#include "csrc/lowering/snippet_plan.h"
#include "csrc/lowering/view_access.h"

namespace dendrite::lowering {
namespace {

// What is known of a storage between two records.
struct StorageState {
  Value value;       // the window's elements in row-major order; undefined: not looked at yet
  int32_t arg = -1;  // its argument, if there is one
  // Views of this version whose values are known, so that what was just written is read back for
  // nothing.
  struct Known {
    tape::View view;
    int64_t offset;
    int32_t offset_slot;
    Value value;
  };
  std::vector<Known> known;
};

// Operators whose first argument says only what is overwritten. Not reading it spares an argument.
bool IgnoresSelf(const tape::Signature& sig) {
  return sig.op == "aten.copy.default" || sig.op == "aten.zero.default" ||
         sig.op == "aten.fill.Scalar" || sig.op == "aten.fill.Tensor";
}

class SnippetBuilder {
 public:
  SnippetBuilder(const tape::Tape& tape, const SnippetOptions& options)
      : tape_(tape),
        options_(options),
        plan_(MakePlan(tape, options)),
        lifted_(tape, options.traits),
        states_(tape.storages.size()) {}

  Result<Snippet> Run() {
    lifted_.AddArguments(b_, &out_.args);
    out_.lifted = lifted_.places();
    out_.lifted_offsets = lifted_.offsets();
    out_.offset_checks.resize(static_cast<size_t>(tape_.num_lifted_offsets));
    for (size_t r = 0; r < tape_.records.size(); ++r) {
      DENDRITE_RETURN_IF_ERROR(Lower(static_cast<int32_t>(r)));
    }
    b_.SetLocation("", 0);
    std::vector<Value> results = AddOutputs();
    DENDRITE_ASSIGN_OR_RETURN(out_.stablehlo, b_.Finish(results));
    out_.custom_calls.assign(b_.custom_calls().begin(), b_.custom_calls().end());
    out_.expected_temp_bytes = plan_.expected_temp_bytes;
    return std::move(out_);
  }

 private:
  Status Lower(int32_t number) {
    const tape::Record& record = tape_.records[number];
    const tape::Signature& sig = *record.sig;
    const LowerFn fn = Lookup(sig.op);
    if (fn == nullptr) return Unimplemented(sig.op + " has no lowering");
    if (record.site >= 0 && record.site < static_cast<int32_t>(tape_.sites.size())) {
      b_.SetLocation(tape_.sites[record.site].file, tape_.sites[record.site].line);
    }
    // Unless the same tensor is the source as well, of course.
    const bool ignores_self = IgnoresSelf(sig) && sig.args[0].kind == Arg::Kind::kTensor &&
                              !(sig.args.size() > 1 && sig.args[1].kind == Arg::Kind::kTensor &&
                                sig.args[1].ints == sig.args[0].ints);
    const int64_t ignored = ignores_self ? sig.args[0].ints[0] : -1;
    std::vector<Value> inputs(sig.operands.size());
    for (size_t i = 0; i < sig.operands.size(); ++i) {
      const tape::OperandType& type = sig.operands[i];
      if (type.lifted_slot >= 0) {
        const Value v = lifted_.Get(b_, record.first_lifted + type.lifted_slot);
        inputs[i] = ConvertLikeTorch(b_, v, type.view.dtype);
      } else if (type.read && static_cast<int64_t>(i) != ignored) {
        inputs[i] = Read(type.view, record.operands[i]);
      }
    }
    Emitter emitter(sig, b_, options_.traits, std::move(inputs), LiftedOf(record));
    if (b_.status().ok() && !LowerToAtenKernel(emitter)) fn(emitter);
    DENDRITE_RETURN_IF_ERROR(CheckResults(emitter).WithContext(sig.op));
    for (int k = 0; k < emitter.num_results(); ++k) {
      if (!emitter.Wanted(k)) continue;
      const int32_t at = sig.results[k];
      Write(sig.operands[at].view, record.operands[at], emitter.results()[k]);
    }
    if (emitter.index_check().defined()) NoteIndexCheck(number, emitter.index_check());
    return b_.status().WithContext(sig.op);
  }

  // Slots that are operands are no arguments: those stay undefined here.
  std::vector<Value> LiftedOf(const tape::Record& record) {
    std::vector<Value> values(static_cast<size_t>(record.sig->num_lifted));
    for (const Arg& arg : record.sig->args) {
      if (arg.kind == Arg::Kind::kLifted) {
        values[arg.i] = lifted_.Get(b_, record.first_lifted + static_cast<int32_t>(arg.i));
      } else if (arg.kind == Arg::Kind::kLiftedList) {
        for (int64_t slot : arg.ints) {
          values[slot] = lifted_.Get(b_, record.first_lifted + static_cast<int32_t>(slot));
        }
      }
    }
    return values;
  }

  // The storage's value as elements of `dtype`.
  Value Window(int32_t s, DType dtype) {
    StorageState& state = states_[s];
    const StoragePlan& plan = plan_.storages[s];
    if (!state.value.defined()) {
      if (plan.has_buffer) {
        state.value = AddStorageArgument(s, plan.dtype, plan.dims, true);
      } else {
        state.value = b_.Constant(plan.dtype, plan.dims, 0);
      }
    }
    if (plan.bytes % tape::ItemSize(dtype) != 0) {
      b_.Fail(Unimplemented("a storage of " + std::to_string(plan.bytes) + " bytes seen as " +
                            tape::Name(dtype)));
    }
    return Reinterpret(b_, state.value, dtype);
  }

  ViewAt At(const tape::View& view, const tape::OperandRef& ref) {
    const int64_t item = tape::ItemSize(view.dtype);
    const StoragePlan& plan = plan_.storages[ref.storage];
    if (ref.offset_slot < 0) return {view, ref.offset - plan.begin / item, {}};
    NoteOffsetCheck(ref.offset_slot, OffsetCheckFor(view, plan.bytes / item));
    return {view, 0, lifted_.GetOffset(b_, ref.offset_slot)};
  }

  Value Read(const tape::View& view, const tape::OperandRef& ref) {
    if (view.numel() == 0) return b_.Constant(view.dtype, view.sizes, 0);
    StorageState& state = states_[ref.storage];
    for (const StorageState::Known& known : state.known) {
      if (known.view == view && known.offset == ref.offset &&
          known.offset_slot == ref.offset_slot) {
        return known.value;
      }
    }
    const Value window = Window(ref.storage, view.dtype);
    Value v = ReadView(b_, window, At(view, ref));
    state.known.push_back({view, ref.offset, ref.offset_slot, v});
    return v;
  }

  void Write(const tape::View& view, const tape::OperandRef& ref, const Value& result) {
    const Value v = b_.BroadcastTo(ConvertLikeTorch(b_, result, view.dtype), view.sizes);
    if (view.numel() == 0) return;
    StorageState& state = states_[ref.storage];
    const ViewAt at = At(view, ref);
    const int64_t count = plan_.storages[ref.storage].bytes / tape::ItemSize(view.dtype);
    if (!at.lifted_offset.defined() && CoversWindow(view, at.offset, count) &&
        count * tape::ItemSize(view.dtype) == plan_.storages[ref.storage].bytes) {
      state.value = WindowFromWholeView(b_, view, v);
    } else {
      state.value = WriteView(b_, Window(ref.storage, view.dtype), at, v);
    }
    state.known.clear();
    state.known.push_back({view, ref.offset, ref.offset_slot, v});
  }

  Value AddStorageArgument(int32_t s, DType dtype, const Dims& dims, bool read) {
    const StoragePlan& plan = plan_.storages[s];
    states_[s].arg = static_cast<int32_t>(out_.args.size());
    SnippetArg arg;
    arg.storage = s;
    arg.dtype = dtype;
    arg.dims = dims;
    arg.byte_offset = plan.begin;
    arg.donated = plan.output >= 0 && plan.may_alias;
    arg.read = read;
    out_.args.push_back(std::move(arg));
    return b_.Argument(dtype, dims, plan.may_alias ? plan.output : -1);
  }

  std::vector<Value> AddOutputs() {
    std::vector<Value> results;
    for (size_t s = 0; s < states_.size(); ++s) {
      if (plan_.storages[s].output < 0) continue;
      StorageState& state = states_[s];
      if (state.arg < 0 && options_.host_visible) {
        AddStorageArgument(static_cast<int32_t>(s), state.value.dtype, state.value.dims, false);
      }
      Value v = state.value;
      const bool aliased = state.arg >= 0 && plan_.storages[s].may_alias;
      if (aliased) {  // an output has the type of the argument that it takes the place of
        const SnippetArg& arg = out_.args[state.arg];
        v = b_.Reshape(Reinterpret(b_, v, arg.dtype), arg.dims);
      } else if (!options_.host_visible && plan_.storages[s].may_alias &&
                 tape_.storages[s].form_dtype != DType::kUndefined) {
        // A fresh buffer has the form in which later snippets take it as an argument.
        v = b_.Reshape(Reinterpret(b_, v, plan_.storages[s].dtype), plan_.storages[s].dims);
      }
      SnippetOut out;
      out.storage = static_cast<int32_t>(s);
      out.dtype = v.dtype;
      out.dims = v.dims;
      out.aliased_arg = aliased ? state.arg : -1;
      out_.outs.push_back(std::move(out));
      results.push_back(v);
    }
    if (first_failure_.defined()) {
      SnippetOut out;
      out.kind = SnippetOut::Kind::kIndexError;
      out.dtype = DType::kI32;
      out_.outs.push_back(std::move(out));
      results.push_back(first_failure_);
    }
    return results;
  }

  void NoteIndexCheck(int32_t number, const Value& ok) {
    const Value none = b_.ConstantInt(DType::kI32, {}, -1);
    const Value mine = b_.Select(ok, none, b_.ConstantInt(DType::kI32, {}, number));
    if (!first_failure_.defined()) {
      first_failure_ = mine;
      return;
    }
    const Value is_first = b_.Compare(stablehlo::Cmp::kEq, first_failure_, none);
    first_failure_ = b_.Select(is_first, mine, first_failure_);
  }

  void NoteOffsetCheck(int32_t slot, Snippet::OffsetCheck check) {
    Snippet::OffsetCheck& known = out_.offset_checks[slot];
    if (!known.form.empty() && (known.form != check.form || known.extent != check.extent)) {
      b_.Fail(Unimplemented("a lifted offset that two different views share"));
    }
    known = std::move(check);
  }

  const tape::Tape& tape_;
  const SnippetOptions& options_;
  const SnippetPlan plan_;
  LiftedPack lifted_;
  std::vector<StorageState> states_;
  Builder b_;
  Snippet out_;
  Value first_failure_;
};

}  // namespace

bool CheckLiftedOffset(const Snippet::OffsetCheck& check, int64_t offset) {
  if (offset < 0) return false;
  for (size_t k = check.form.size(); k-- > 0;) {
    const int64_t index = k == 0 ? offset : offset % check.form[k];
    if (index + check.extent[k] > check.form[k]) return false;
    offset /= check.form[k];
  }
  return true;
}

Result<Snippet> LowerTape(const tape::Tape& tape, const SnippetOptions& options) {
  return SnippetBuilder(tape, options).Run();
}

}  // namespace dendrite::lowering
