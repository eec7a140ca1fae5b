#include "runner/launch/outward_signs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace accel::outward_signs_test {
namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(OutwardSignsTest, TheTerminationMessageIsTheLastError) {
  const std::string path = testing::TempDir() + "termination-log";
  std::ofstream(path) << "";
  const Variable variable("ACCEL_RUN_TERMINATION_LOG", path);
  write_termination_message(std::string(9000, 'x'));
  EXPECT_EQ(contents(path).size(), 4096u);
  write_termination_message("error: no data\n");
  EXPECT_EQ(contents(path), "error: no data\n");
}

TEST(OutwardSignsTest, NoFileIsCreatedForATerminationMessage) {
  const std::string path = testing::TempDir() + "no-termination-log";
  const Variable variable("ACCEL_RUN_TERMINATION_LOG", path);
  write_termination_message("error: no data\n");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OutwardSignsTest, TheReadinessFileExistsWhileRanksTrain) {
  const std::string path = testing::TempDir() + "ready";
  std::ofstream(path) << "old";
  const Variable variable("ACCEL_RUN_READY_FILE", path);
  {
    ReadyFile ready;
    EXPECT_FALSE(std::filesystem::exists(path));
    ready.set(true);
    EXPECT_TRUE(std::filesystem::exists(path));
    ready.set(false);
    EXPECT_FALSE(std::filesystem::exists(path));
    ready.set(true);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace accel::outward_signs_test
