#include "csrc/stablehlo/builder.h"

#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {

std::string Builder::TypeText(DType dtype, const Dims& dims) {
  std::string out = "tensor<";
  for (int64_t d : dims) {
    out += std::to_string(d);
    out += 'x';
  }
  out += Name(dtype);
  return out + ">";
}

void Builder::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool Builder::Expect(bool ok, std::string_view op, std::string_view what) {
  if (!ok) Fail(Internal("stablehlo." + std::string(op) + ": " + std::string(what)));
  return ok;
}

Value Builder::NewValue(DType dtype, Dims dims) { return {next_id_++, dtype, std::move(dims)}; }

void Builder::SetLocation(std::string_view file, int line) {
  location_.clear();
  if (file.empty()) return;
  location_ = " loc(\"";
  for (char c : file) {
    if (c == '"' || c == '\\') location_ += '\\';
    location_ += c == '\n' ? ' ' : c;
  }
  location_ += "\":" + std::to_string(line) + ":0)";
}

Value Builder::Argument(DType dtype, const Dims& dims, int aliased_output) {
  Value v = NewValue(dtype, dims);
  if (num_args_++) args_ += ", ";
  args_ += Ref(v) + ": " + TypeOf(v);
  if (aliased_output >= 0) {
    args_ += " {tf.aliasing_output = " + std::to_string(aliased_output) + " : i32}";
  }
  return v;
}

void Builder::Append(const std::vector<Value>& results, const std::string& text) {
  if (!status_.ok()) return;
  body_.append(static_cast<size_t>(indent_) * 2, ' ');
  if (!results.empty()) {
    body_ += Refs(results);
    body_ += " = ";
  }
  body_ += text;
  body_ += location_;
  body_ += '\n';
}

Value Builder::Emit(DType dtype, Dims dims, const std::string& text) {
  Value v = NewValue(dtype, std::move(dims));
  Append({v}, text);
  return v;
}

std::string Builder::RegionText(const std::vector<Value>& params, const RegionN& body,
                                std::vector<Value>* yielded) {
  std::string outer;
  outer.swap(body_);
  ++indent_;
  std::vector<Value> results = body(*this, params);
  Append({}, "stablehlo.return " + Refs(results) + " : " + TypesOf(results));
  --indent_;
  outer.swap(body_);
  std::string text = "{\n" + std::string(static_cast<size_t>(indent_) * 2, ' ') + "^bb0(";
  for (size_t i = 0; i < params.size(); ++i) {
    if (i) text += ", ";
    text += Ref(params[i]) + ": " + TypeOf(params[i]);
  }
  text += "):\n" + outer + std::string(static_cast<size_t>(indent_) * 2, ' ') + "}";
  if (yielded) *yielded = std::move(results);
  return text;
}

std::string Builder::RegionText(DType dtype, const Region& body) {
  const std::vector<Value> params = {NewValue(dtype, {}), NewValue(dtype, {})};
  std::vector<Value> yielded;
  std::string text = RegionText(
      params,
      [&](Builder& b, const std::vector<Value>& p) {
        return std::vector<Value>{body(b, p[0], p[1])};
      },
      &yielded);
  Expect(yielded[0].dtype == dtype && yielded[0].dims.empty(), "region", "yields another type");
  return text;
}

Builder::Mark Builder::GetMark() const { return {body_.size(), next_id_}; }

void Builder::RollBack(const Mark& mark) {
  body_.resize(mark.body_size);
  next_id_ = mark.next_id;
  transposes_.erase(transposes_.lower_bound(mark.next_id), transposes_.end());
  status_ = {};
}

Result<std::string> Builder::Finish(const std::vector<Value>& results) {
  for (const Value& v : results) Expect(v.defined(), "return", "undefined value");
  if (!status_.ok()) return status_;
  std::string out = "module @dendrite {\n  func.func public @main(" + args_ + ") -> (" +
                    TypesOf(results) + ") {\n" + body_ + "    return";
  if (!results.empty()) out += " " + Refs(results) + " : " + TypesOf(results);
  return out + "\n  }\n}\n";
}

}  // namespace dendrite::stablehlo
