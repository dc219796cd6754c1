#include "csrc/python/program.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <algorithm>

namespace dendrite::python {

Program::Program(int64_t num_inputs) : num_inputs_(num_inputs), num_values_(num_inputs) {}

int64_t Program::AddConstant(const at::Tensor& value) {
  constants_.emplace_back(num_values_, value);
  return num_values_++;
}

Program::Arg Program::MakeArg(py::handle object, const c10::Argument& argument) const {
  if (py::isinstance<Ref>(object)) return object.cast<Ref>();
  const bool sequence = py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object);
  if (sequence) {
    const auto items = py::reinterpret_borrow<py::sequence>(object);
    const bool any = std::any_of(items.begin(), items.end(),
                                 [](py::handle item) { return py::isinstance<Ref>(item); });
    if (any) {
      c10::TypePtr type = argument.type();
      if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
      const auto list = type->cast<c10::ListType>();
      TORCH_CHECK(list != nullptr, "values in a sequence that is not a list of tensors");
      const c10::TypePtr element = list->getElementType();
      const bool optional = element->isSubtypeOf(*c10::OptionalType::ofTensor()) &&
                            !element->isSubtypeOf(*c10::TensorType::get());
      TORCH_CHECK(optional || element->isSubtypeOf(*c10::TensorType::get()),
                  "values in a list of other things than tensors");
      List result;
      result.optional = optional;
      for (py::handle item : items) {
        TORCH_CHECK(item.is_none() ? optional : py::isinstance<Ref>(item),
                    "a list of tensors with something else in it");
        result.ids.push_back(item.is_none() ? -1 : item.cast<Ref>().id);
      }
      return result;
    }
  }
  return torch::jit::toIValue(object, argument.type(), argument.N());
}

int64_t Program::AddCall(const std::string& name, const std::string& overload, const py::list& args,
                         const py::dict& kwargs) {
  Step step;
  torch::jit::ToIValueAllowNumbersAsTensors numbers(true);  // aten.mul.Tensor(x, 3)
  step.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const c10::FunctionSchema& schema = step.op->schema();
  const auto& formal = schema.arguments();
  TORCH_CHECK(args.size() <= formal.size() && !schema.is_vararg() && !schema.is_varret(),
              "too many arguments for ", name);
  for (size_t i = 0; i < formal.size(); ++i) {
    const py::str key(formal[i].name());
    if (i < args.size()) {
      step.args.push_back(MakeArg(args[i], formal[i]));
    } else if (kwargs.contains(key)) {
      step.args.push_back(MakeArg(kwargs[key], formal[i]));
    } else {
      TORCH_CHECK(formal[i].default_value().has_value(), name, " lacks ", formal[i].name());
      step.args.emplace_back(*formal[i].default_value());
    }
  }
  step.first = num_values_;
  step.count = static_cast<int64_t>(schema.returns().size());
  num_values_ += step.count;
  steps_.push_back(std::move(step));
  return steps_.back().first;
}

int64_t Program::AddItem(int64_t list, int64_t index) {
  Step step;
  step.list = list;
  step.index = index;
  step.first = num_values_++;
  steps_.push_back(std::move(step));
  return steps_.back().first;
}

void Program::Finish(const py::list& outputs) {
  for (py::handle output : outputs) {
    const bool is_value = py::isinstance<Ref>(output);
    outputs_.push_back(is_value ? output.cast<Ref>().id : -1);
    if (!is_value) output_objects_.append(output);
  }
  std::vector<bool> used(static_cast<size_t>(num_values_));
  for (const int64_t id : outputs_) {
    if (id >= 0) used[static_cast<size_t>(id)] = true;
  }
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const auto use = [&](int64_t id) {
      if (id < 0 || used[static_cast<size_t>(id)]) return;
      used[static_cast<size_t>(id)] = true;
      step->last_uses.push_back(id);
    };
    for (int64_t i = 0; i < step->count; ++i) use(step->first + i);  // results that nobody takes
    use(step->list);
    for (const Arg& arg : step->args) {
      if (const auto* ref = std::get_if<Ref>(&arg)) use(ref->id);
      if (const auto* list = std::get_if<List>(&arg)) {
        for (const int64_t id : list->ids) use(id);
      }
    }
  }
}

void Program::RunSteps(std::vector<c10::IValue>& values) const {
  const auto value = [&](int64_t id) -> c10::IValue& { return values[static_cast<size_t>(id)]; };
  torch::jit::Stack stack;
  for (const Step& step : steps_) {
    if (!step.op.has_value()) {
      value(step.first) = value(step.list).toTensorList().get(static_cast<size_t>(step.index));
    } else {
      stack.clear();
      for (const Arg& arg : step.args) {
        if (const auto* constant = std::get_if<c10::IValue>(&arg)) {
          stack.push_back(*constant);
        } else if (const auto* ref = std::get_if<Ref>(&arg)) {
          stack.push_back(value(ref->id));
        } else if (const List& list = std::get<List>(arg); list.optional) {
          c10::List<std::optional<at::Tensor>> tensors;
          for (const int64_t id : list.ids) {
            tensors.push_back(id < 0 ? std::nullopt : value(id).toOptional<at::Tensor>());
          }
          stack.emplace_back(std::move(tensors));
        } else {
          c10::List<at::Tensor> tensors;
          for (const int64_t id : list.ids) tensors.push_back(value(id).toTensor());
          stack.emplace_back(std::move(tensors));
        }
      }
      step.op->callBoxed(stack);
      for (int64_t i = 0; i < step.count; ++i) {
        value(step.first + i) = std::move(stack[static_cast<size_t>(i)]);
      }
    }
    for (const int64_t id : step.last_uses) value(id) = c10::IValue();
  }
}

py::list Program::Run(py::list inputs) const {
  TORCH_CHECK(static_cast<int64_t>(inputs.size()) == num_inputs_, "expected ", num_inputs_,
              " inputs, got ", inputs.size());
  std::vector<c10::IValue> values(static_cast<size_t>(num_values_));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const py::handle input = inputs[i];
    if (THPVariable_Check(input.ptr())) {
      values[i] = THPVariable_Unpack(input.ptr());
    } else if (PyLong_Check(input.ptr())) {
      values[i] = input.cast<int64_t>();
    } else {
      TORCH_CHECK(input.is_none(), "a graph's input is neither a tensor nor an integer");
    }
  }
  for (const auto& [id, tensor] : constants_) values[static_cast<size_t>(id)] = tensor;
  PyList_SetSlice(inputs.ptr(), 0, PyList_GET_SIZE(inputs.ptr()), nullptr);
  {
    py::gil_scoped_release no_gil;
    RunSteps(values);
  }
  py::list results;
  size_t next_object = 0;
  for (const int64_t id : outputs_) {
    if (id < 0) {
      results.append(output_objects_[next_object++]);
    } else {
      results.append(torch::jit::toPyObject(values[static_cast<size_t>(id)]));
    }
  }
  return results;
}

void BindProgram(py::module& m) {
  py::class_<Ref>(m, "Ref").def(py::init<int64_t>()).def_readonly("id", &Ref::id);
  py::class_<Program>(m, "Program")
      .def(py::init<int64_t>())
      .def("add_constant", &Program::AddConstant)
      .def("add_call", &Program::AddCall)
      .def("add_item", &Program::AddItem)
      .def("finish", &Program::Finish)
      // Errors of operators written in Python come out as what they are.
      .def("run", torch::wrap_pybind_function([](const Program& program, py::list inputs) {
             return program.Run(std::move(inputs));
           }));
}

}  // namespace dendrite::python
