#include "train/job/torch_setup.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace accel::torch_setup_test {
namespace {

/// Of the first processor that the system reports.
std::string reported(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(line.find(": ") + 2);
  }
  return {};
}

TEST(EnvironmentFactsTest, ProcessorIsItsMakerAndFamily) {
  EXPECT_EQ(environment_info().at("processor"),
            reported("vendor_id") + " " + reported("cpu family"));
}

}  // namespace
}  // namespace accel::torch_setup_test
