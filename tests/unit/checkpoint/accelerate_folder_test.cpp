// Folders that Accelerate's FSDP wrote, read as the state of a run.
#include "checkpoint/accelerate_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "checkpoint/reader.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/golden_folder.h"

namespace accel::accelerate_folder_test {
namespace {

const std::vector<std::string> kParameters = {"0.weight", "0.bias", "1.weight", "1.bias"};

/// Name and CRC-32 of every tensor that the table of a golden folder lists.
std::set<std::string> listed(const std::string& name) {
  std::set<std::string> out;
  std::ifstream in(golden_folder(name + ".tsv"));
  for (std::string line; std::getline(in, line);) {
    if (line.find("\tfloat32\t") != line.npos) {
      out.insert(line.substr(0, line.find('\t')) + line.substr(line.rfind('\t')));
    }
  }
  return out;
}

std::string line_of(const std::string& name, const at::Tensor& tensor) {
  return name + "\t" + crc_text(tensor);
}

TEST(AccelerateFolderTest, WhatFsdpWroteIsReadAsOneProcessWouldHaveIt) {
  DiskFiles files;
  for (const std::string name : {"fsdp1", "fsdp2", "fsdp_full"}) {
    LoadOptions options;
    options.parameters = kParameters;
    const TrainState state = read_accelerate_checkpoint(files, golden_folder(name), options);
    std::set<std::string> found;
    for (const Parameter& weight : state.model) {
      found.insert(line_of("model." + weight.name, weight.local));
    }
    ASSERT_EQ(state.optimizer.groups.size(), 1U) << name;
    std::vector<std::string> order;
    for (const auto& [parameter, slots] : state.optimizer.groups[0].parameters) {
      order.push_back(parameter);
      for (const Parameter& slot : slots) {
        found.insert(line_of("optimizer.state." + parameter + "." + slot.name, slot.local));
      }
    }
    EXPECT_EQ(found, listed(name)) << name;
    EXPECT_EQ(order, kParameters) << name;
    ASSERT_TRUE(state.accelerate) << name;
    EXPECT_EQ(state.accelerate->not_used, std::vector<std::string>{}) << name;
  }
}

TEST(AccelerateFolderTest, WithoutAJobParametersGoByNumber) {
  DiskFiles files;
  LoadOptions options;
  options.numbered = true;
  const std::string folder =
      std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/checkpoint/golden/adamw";
  const TrainState state = read_accelerate_checkpoint(files, folder, options);
  ASSERT_EQ(state.optimizer.groups.size(), 1U);
  ASSERT_EQ(state.optimizer.groups[0].parameters.size(), 6U);
  EXPECT_EQ(state.optimizer.groups[0].parameters[5].name, "5");
  EXPECT_EQ(state.optimizer.groups[0].parameters[5].slots.size(), 3U);
}

/// An optimizer of Python's that was given all parameters numbers those that are frozen too.
TEST(AccelerateFolderTest, OfFrozenParametersTheStateIsLeftOut) {
  DiskFiles files;
  const auto read = [&](const std::vector<std::string>& trained) {
    LoadOptions options;
    options.with_frozen = kParameters;
    options.parameters = trained;
    return read_accelerate_checkpoint(files, golden_folder("fsdp2"), options);
  };
  const TrainState whole_state = read(kParameters);
  const auto& all = whole_state.optimizer.groups[0].parameters;
  const TrainState state = read({"0.bias", "1.bias"});
  const auto& some = state.optimizer.groups[0].parameters;
  ASSERT_EQ(some.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const auto& whole = all[2 * i + 1];
    EXPECT_EQ(some[i].name, whole.name);
    ASSERT_EQ(some[i].slots.size(), 3U);
    for (size_t s = 0; s < 3; ++s) {
      EXPECT_EQ(some[i].slots[s].name, whole.slots[s].name);
      EXPECT_TRUE(some[i].slots[s].local.equal(whole.slots[s].local));
    }
  }
  EXPECT_EQ(state.accelerate->frozen, (std::vector<std::string>{"0.weight", "1.weight"}));
  EXPECT_EQ(state.model.size(), 4U);
  EXPECT_TRUE(read(kParameters).accelerate->frozen.empty());
}

TEST(AccelerateFolderTest, AnotherModelsOptimizerIsRefused) {
  DiskFiles files;
  LoadOptions options;
  options.parameters = {"0.weight"};
  try {
    read_accelerate_checkpoint(files, golden_folder("fsdp2"), options);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(std::string(error.what()), "'" + golden_folder("fsdp2") +
                                             "/optimizer.bin' has 4 parameters, the recipe trains "
                                             "1");
  }
}

}  // namespace
}  // namespace accel::accelerate_folder_test
