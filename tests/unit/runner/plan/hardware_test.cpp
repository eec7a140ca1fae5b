#include "runner/plan/hardware.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace accel::hardware_test {
namespace {

std::string complaint(const std::vector<std::string>& words) {
  try {
    hardware_of(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + "\n" + error.hint();
  }
  return "";
}

TEST(HardwareTest, ANameAndItsChanges) {
  for (const std::string& name : hardware_names()) {
    const Hardware known = hardware_of({name});
    EXPECT_EQ(known.name, name);
    EXPECT_GT(known.flops_16bit, known.flops_fp32) << name;
    EXPECT_GT(known.memory_bandwidth, known.link) << name;
    EXPECT_GT(known.link, known.network) << name;
    EXPECT_EQ(known.ranks_per_machine, 8) << name;
  }
  const Hardware changed = hardware_of({"h100", "memory=94e9", "ranks_per_machine=4"});
  EXPECT_EQ(changed.memory, 94e9);
  EXPECT_EQ(changed.ranks_per_machine, 4);
  EXPECT_EQ(changed.network, hardware_of({"h100"}).network);
}

TEST(HardwareTest, WhatIsNoHardware) {
  EXPECT_EQ(complaint({"h1000"}),
            "'--hardware' has 'h1000', which is not known\n"
            "give a100-40gb, a100, h100, h200, b200, and change what differs: '--hardware h100 "
            "memory=94e9'");
  const std::string hint =
      "\nchange memory, flops_16bit, flops_fp32, memory_bandwidth, link, network, "
      "ranks_per_machine with a number, such as 'memory=94e9'";
  EXPECT_EQ(complaint({"h100", "94e9"}), "'--hardware' has '94e9', not NAME=NUMBER" + hint);
  EXPECT_EQ(complaint({"h100", "speed=2"}),
            "'--hardware' has 'speed=2', and hardware has no 'speed'" + hint);
  for (const std::string word :
       {"link=", "link=fast", "link=0", "link=-1", "link=nan", "link=1x"}) {
    EXPECT_EQ(complaint({"h100", word}),
              "'--hardware' has '" + word + "', whose value is not a positive number" + hint);
  }
  EXPECT_EQ(complaint({"h100", "ranks_per_machine=2.5"}),
            "'--hardware' has 'ranks_per_machine=2.5', not a number of ranks" + hint);
}

}  // namespace
}  // namespace accel::hardware_test
