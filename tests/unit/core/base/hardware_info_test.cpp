#include "core/base/hardware_info.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/formats/temp_folder.h"

namespace accel::hardware_info_test {
namespace {

TEST(MachineFactsTest, EveryFactIsKnown) {
  for (const auto& [name, value] : hardware_info()) {
    EXPECT_NE(value, "") << name;
    EXPECT_TRUE(name == "cpu" || value.find("unknown") == std::string::npos) << name;
  }
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : hardware_info()) facts[name] = value;
  EXPECT_EQ(facts["kernel"].find("Linux "), 0u);
  EXPECT_EQ(facts["memory"].find("0.0 GiB"), std::string::npos) << facts["memory"];
  EXPECT_NE(facts["cores"].find(" usable of "), std::string::npos);
}

TEST(MachineFactsTest, GpusAreCountedByTheirDeviceFiles) {
  const TempFolder folder;
  EXPECT_EQ(gpus_here(folder.path("none")), 0);
  for (const char* name : {"nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    folder.write(name, "");
  }
  EXPECT_EQ(gpus_here(folder.path()), 2);
}

TEST(MachineFactsTest, SecretsAreNamedButNotTold) {
  const char* environment[] = {"WORLD_SIZE=2",
                               "PATH=/bin",
                               "WANDB_API_KEY=hush",
                               "HF_TOKEN=hush",
                               "https_proxy=http://me:hush@proxy",
                               "MLFLOW_TRACKING_URI=https://me:hush@host",
                               "ACCELERATE_USE_CPU=",
                               "HF_HOME",
                               nullptr};
  const NamedValues expected = {{"ACCELERATE_USE_CPU", ""}, {"HF_HOME", ""},
                                {"HF_TOKEN", "(set)"},      {"MLFLOW_TRACKING_URI", "(set)"},
                                {"WANDB_API_KEY", "(set)"}, {"WORLD_SIZE", "2"},
                                {"https_proxy", "(set)"}};
  EXPECT_EQ(run_variables(environment), expected);
}

}  // namespace
}  // namespace accel::hardware_info_test
