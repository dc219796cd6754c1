#include "csrc/testing/fake_plugin/fake_program.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace dendrite::fake {
namespace {

struct ElementName {
  std::string_view name;
  PJRT_Buffer_Type type;
  size_t bytes;
};
constexpr ElementName kElements[] = {
    {"i1", PJRT_Buffer_Type_PRED, 1},           {"i8", PJRT_Buffer_Type_S8, 1},
    {"i16", PJRT_Buffer_Type_S16, 2},           {"i32", PJRT_Buffer_Type_S32, 4},
    {"i64", PJRT_Buffer_Type_S64, 8},           {"ui8", PJRT_Buffer_Type_U8, 1},
    {"ui16", PJRT_Buffer_Type_U16, 2},          {"ui32", PJRT_Buffer_Type_U32, 4},
    {"ui64", PJRT_Buffer_Type_U64, 8},          {"f16", PJRT_Buffer_Type_F16, 2},
    {"bf16", PJRT_Buffer_Type_BF16, 2},         {"f32", PJRT_Buffer_Type_F32, 4},
    {"f64", PJRT_Buffer_Type_F64, 8},           {"complex<f32>", PJRT_Buffer_Type_C64, 8},
    {"complex<f64>", PJRT_Buffer_Type_C128, 16}};

constexpr std::string_view kTensor = "tensor<";

// "4x8xf32" -> dims and element type.
bool ParseTensorBody(std::string_view body, TensorType* out) {
  while (!body.empty() && std::isdigit(static_cast<unsigned char>(body.front()))) {
    int64_t dim = 0;
    const auto [end, code] = std::from_chars(body.data(), body.data() + body.size(), dim);
    const auto used = static_cast<size_t>(end - body.data());
    if (code != std::errc() || used >= body.size() || body[used] != 'x') return false;
    out->dims.push_back(dim);
    body.remove_prefix(used + 1);
  }
  for (const ElementName& element : kElements) {
    if (body == element.name) {
      out->type = element.type;
      return true;
    }
  }
  return false;
}

// Position of the bracket that closes the one before `from`, or npos.
size_t Closing(std::string_view text, size_t from, char open, char close) {
  int depth = 1;
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// The next tensor type in `text`, which is advanced past it. False at the end or on a bad one.
bool NextTensor(std::string_view* text, TensorType* out, bool* bad) {
  const size_t at = text->find(kTensor);
  if (at == std::string_view::npos) return false;
  const size_t end = Closing(*text, at + kTensor.size(), '<', '>');
  *bad = end == std::string_view::npos ||
         !ParseTensorBody(text->substr(at + kTensor.size(), end - at - kTensor.size()), out);
  if (*bad) return false;
  text->remove_prefix(end + 1);
  return true;
}

bool ParseArguments(std::string_view text, std::vector<Program::Argument>* arguments) {
  constexpr std::string_view kAlias = "tf.aliasing_output = ";
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%')) {
    text.remove_prefix(at);
    Program::Argument argument;
    argument.name = std::string(text.substr(0, text.find(':')));
    bool bad = false;
    if (!NextTensor(&text, &argument.type, &bad)) return false;
    const std::string_view attributes = text.substr(0, text.find('%'));
    if (const size_t alias = attributes.find(kAlias); alias != std::string_view::npos) {
      const char* number = attributes.data() + alias + kAlias.size();
      std::from_chars(number, attributes.data() + attributes.size(), argument.aliased_output);
    }
    arguments->push_back(std::move(argument));
  }
  return true;
}

// Which argument each result is, from the function's "return %a, %b : ...".
void ParseReturn(std::string_view body, Program* program) {
  const size_t at = body.rfind("return ");
  if (at == std::string_view::npos) return;
  std::string_view names = body.substr(at, body.find(':', at) - at);
  for (Program::Result& result : program->results) {
    const size_t begin = names.find('%');
    if (begin == std::string_view::npos) return;
    names.remove_prefix(begin);
    const std::string_view name = names.substr(0, names.find_first_of(", \n"));
    for (size_t i = 0; i < program->arguments.size(); ++i) {
      if (program->arguments[i].name == name) result.returned_argument = static_cast<int>(i);
    }
    names.remove_prefix(name.size());
  }
}

}  // namespace

size_t ElementBytes(PJRT_Buffer_Type type) {
  for (const ElementName& element : kElements) {
    if (element.type == type) return element.bytes;
  }
  return 0;
}

size_t TensorType::Bytes() const {
  size_t n = ElementBytes(type);
  for (int64_t dim : dims) n *= static_cast<size_t>(dim);
  return n;
}

bool ParseProgram(std::string_view text, Program* program, std::string* error) {
  constexpr std::string_view kMain = "@main(";
  constexpr std::string_view kArrow = "->";
  constexpr size_t kNone = std::string_view::npos;
  *error = "fake plugin: the program has no function @main that it can read";
  const size_t main = text.find(kMain);
  if (main == kNone) return false;
  text.remove_prefix(main + kMain.size());
  const size_t close = Closing(text, 0, '(', ')');
  if (close == kNone) return false;
  const std::string_view arguments = text.substr(0, close);
  text.remove_prefix(close + 1);

  // "-> tensor<...> {" or "-> (tensor<...> {attributes}, ...) {" or "{".
  std::string_view results;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (text.starts_with(kArrow)) {
    text.remove_prefix(kArrow.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const size_t end = text.starts_with('(') ? Closing(text, 1, '(', ')') : text.find('{');
    if (end == kNone) return false;
    results = text.substr(0, end);
    text.remove_prefix(end);
  }

  if (!ParseArguments(arguments, &program->arguments)) {
    *error = "fake plugin: an argument of @main has a type that it does not know";
    return false;
  }
  bool bad = false;
  for (TensorType type; NextTensor(&results, &type, &bad); type = {}) {
    program->results.push_back({type, -1});
  }
  if (bad) {
    *error = "fake plugin: a result of @main has a type that it does not know";
    return false;
  }
  ParseReturn(text, program);
  for (const Program::Argument& argument : program->arguments) {
    if (argument.aliased_output >= static_cast<int>(program->results.size())) {
      *error = "fake plugin: " + argument.name + " aliases a result that is not there";
      return false;
    }
  }
  error->clear();
  return true;
}

}  // namespace dendrite::fake
