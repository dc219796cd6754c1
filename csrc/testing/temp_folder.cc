#include "csrc/testing/temp_folder.h"

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace dendrite::testing {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

void Set(const std::string& name, const std::optional<std::string>& value) {
  const int rc =
      value ? ::setenv(name.c_str(), value->c_str(), /*overwrite=*/1) : ::unsetenv(name.c_str());
  if (rc != 0) Die("cannot set the environment variable " + name);
}

}  // namespace

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "dendrite-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) Die("cannot make a temporary folder " + pattern);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;  // a test may have removed it already
  std::filesystem::remove_all(path_, ignored);
}

ScopedEnv::ScopedEnv(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
  if (const char* old = std::getenv(name_.c_str()); old != nullptr) old_ = old;
  Set(name_, value);
}

ScopedEnv::~ScopedEnv() { Set(name_, old_); }

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Die("cannot read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << contents;
  out.close();
  if (!out) Die("cannot write " + path);
}

}  // namespace dendrite::testing
