#include "core/base/command_output.h"

#include <gtest/gtest.h>

namespace accel::command_output_test {
namespace {

using std::chrono::milliseconds;

std::optional<std::string> of_script(const std::string& script, milliseconds limit) {
  return command_output({"sh", "-c", script}, limit);
}

TEST(CommandOutputTest, IsStandardOutputOfASuccess) {
  EXPECT_EQ(of_script("echo a; echo b >&2; cat", milliseconds(10'000)), "a\n");
  EXPECT_EQ(of_script("echo a; exit 1", milliseconds(10'000)), std::nullopt);
  EXPECT_EQ(command_output({"/none/program"}, milliseconds(10'000)), std::nullopt);
}

TEST(CommandOutputTest, AProgramBeyondTheLimitIsKilled) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(of_script("echo a; exec sleep 60", milliseconds(50)), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace accel::command_output_test
