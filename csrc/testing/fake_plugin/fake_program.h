// csrc/testing/fake_plugin/fake_program.h - as much of a StableHLO module as the fake plugin reads.
//
// The types of @main's arguments and results, which argument each result aliases, and which results
// are arguments returned as they are. The body is not looked at otherwise. Pure; any thread.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dendrite::fake {

struct TensorType {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  size_t Bytes() const;
};

// Bytes of one element; 0 if the fake does not know the type.
size_t ElementBytes(PJRT_Buffer_Type type);

struct Program {
  struct Argument {
    std::string name;  // "%a"
    TensorType type;
    int aliased_output = -1;
  };
  struct Result {
    TensorType type;
    int returned_argument = -1;  // -1: zeros
  };
  std::vector<Argument> arguments;
  std::vector<Result> results;
};

// False, and why, if the text has no @main that the fake can read.
bool ParseProgram(std::string_view text, Program* program, std::string* error);

}  // namespace dendrite::fake
