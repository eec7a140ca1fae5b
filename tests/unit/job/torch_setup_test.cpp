#include "runner/job/torch_setup.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace accel {
namespace {

/// Of the first processor that the system tells of.
std::string told(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(line.find(": ") + 2);
  }
  return {};
}

TEST(EnvironmentFactsTest, ProcessorIsItsMakerAndFamily) {
  EXPECT_EQ(environment_facts().at("processor"), told("vendor_id") + " " + told("cpu family"));
}

}  // namespace
}  // namespace accel
