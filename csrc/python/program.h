// csrc/python/program.h - a graph of operator calls that runs without Python.
//
// torch.compile's graphs are straight lines of ATen calls with static arguments. Interpreted by
// Python, each call costs microseconds of argument parsing; here arguments are parsed once, when
// the program is made, and a run goes straight to the dispatcher, without Python's lock. Values die
// at their last use.
//
// Made by one thread; immutable from Finish on, and then run by any number of threads at once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <variant>
#include <vector>

namespace dendrite::python {

// A value of the program, as it stands among the arguments of a call.
struct Ref {
  int64_t id;
};

class Program {
 public:
  explicit Program(int64_t num_inputs);  // they are values 0 to num_inputs - 1

  int64_t AddConstant(const at::Tensor& value);
  // Returns the first of the call's results, which are numbered one after the other. Throws for
  // arguments of a form that it does not know: the caller interprets such a graph by other means.
  int64_t AddCall(const std::string& name, const std::string& overload, const py::list& args,
                  const py::dict& kwargs);
  // Element `index` of a value that is a list of tensors.
  int64_t AddItem(int64_t list, int64_t index);
  void Finish(const py::list& outputs);  // Refs and constants

  // Empties `inputs`, so that they can die at their last use.
  py::list Run(py::list inputs) const;

 private:
  struct List {
    std::vector<int64_t> ids;  // -1: None
    bool optional = false;     // of optional tensors
  };
  using Arg = std::variant<c10::IValue, Ref, List>;
  struct Step {
    std::optional<c10::OperatorHandle> op;  // none: an item of a list
    std::vector<Arg> args;
    int64_t list = -1, index = 0;
    int64_t first = 0, count = 1;  // results
    std::vector<int64_t> last_uses;
  };
  Arg MakeArg(py::handle object, const c10::Argument& argument) const;
  void RunSteps(std::vector<c10::IValue>& values) const;

  int64_t num_inputs_, num_values_;
  std::vector<Step> steps_;
  std::vector<std::pair<int64_t, at::Tensor>> constants_;
  std::vector<int64_t> outputs_;  // -1: the next of output_objects_
  py::list output_objects_;
};

void BindProgram(py::module& m);

}  // namespace dendrite::python
