// csrc/testing/temp_folder.h - a folder and environment variables that last as long as their scope.
//
// TempFolder makes an empty folder (mode 0700) and removes it with all that is in it. ScopedEnv
// sets or unsets one variable and puts the old value back; like setenv itself it is for tests that
// have no other thread reading the environment. Both abort if the system refuses, since a test
// cannot go on.
#pragma once

#include <optional>
#include <string>

namespace dendrite::testing {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class ScopedEnv {
 public:
  ScopedEnv(std::string name, std::optional<std::string> value);  // nullopt: unset
  ~ScopedEnv();
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  std::string name_;
  std::optional<std::string> old_;
};

// The whole file, and the reverse.
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& contents);

}  // namespace dendrite::testing
