#include "csrc/base/log.h"

#include <gtest/gtest.h>

#include <vector>

namespace dendrite {
namespace {

TEST(LogTest, LevelDecidesAndOperandsBelowItAreNotEvaluated) {
  std::vector<std::string> seen;
  LogSink before = SetLogSink([&](LogLevel, const std::string& text) { seen.push_back(text); });
  SetLogLevel(LogLevel::kWarning);
  int evaluated = 0;
  const auto count = [&] { return ++evaluated; };
  DENDRITE_LOG(kWarning) << "warned " << count();
  DENDRITE_LOG(kInfo) << "told " << count();
  SetLogLevel(LogLevel::kInfo);
  DENDRITE_LOG(kInfo) << "told " << count();
  SetLogSink(before);
  EXPECT_EQ(seen, (std::vector<std::string>{"warned 1", "told 2"}));
  SetLogLevel(LogLevel::kWarning);
}

}  // namespace
}  // namespace dendrite
