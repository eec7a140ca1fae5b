// Checkpoints cross between accel-run and Hugging Face Accelerate, both ways.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include <ATen/CPUGeneratorImpl.h>
#include <zlib.h>

#include "checkpoint/store.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/small_state.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::accelerate_interop_test {
namespace {

const std::string kGolden = "tests/unit/checkpoint/golden/";
const std::vector<std::string> kParameters = {"0.weight", "0.bias",   "1.weight",
                                              "1.bias",   "2.weight", "2.bias"};

std::string source(const std::string& name) {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/" + name;
}

std::string tensor_line(const std::string& part, const std::string& name,
                        const at::Tensor& tensor) {
  const Array array = array_of(tensor, name);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(array.data()), array.bytes());
  return part + "\t" + name + "\t" + to_string(array.shape()) + "\t" + std::to_string(crc);
}

/// The table that make_accelerate_checkpoint.py writes, of what was read.
std::multiset<std::string> table_of(const TrainState& state) {
  std::multiset<std::string> out;
  for (const Parameter& item : state.model) {
    out.insert(tensor_line("model", item.name, item.local));
  }
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    for (const auto& [name, slots] : group.parameters) {
      for (const Parameter& slot : slots) {
        out.insert(tensor_line("optimizer", name + "." + slot.name, slot.local));
      }
    }
  }
  out.insert(tensor_line("rng", "cpu", state.rng));
  return out;
}

std::multiset<std::string> lines_of(const std::string& path, std::vector<double>& lrs) {
  std::ifstream file(path);
  std::multiset<std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("lr\t")) {
      lrs.push_back(std::strtod(line.c_str() + line.rfind('\t'), nullptr));
    } else {
      out.insert(line);
    }
  }
  return out;
}

LoadOptions with(const std::vector<std::string>& parameters) {
  LoadOptions options;
  options.parameters = parameters;
  return options;
}

void expect_reads(const std::string& folder, const std::string& kind) {
  DiskFiles files;
  const CheckpointStore store(files, folder);
  const TrainState state = store.load(folder + "/" + kind, with(kParameters));
  std::vector<double> lrs;
  EXPECT_EQ(table_of(state), lines_of(folder + "/" + kind + ".tsv", lrs));
  EXPECT_EQ(state.lrs, lrs);
  EXPECT_EQ(state.base_lrs, std::vector<double>{kind == "sgd" ? 0.1 : 1e-3});
  EXPECT_EQ(state.schedule.numbers.at("last_epoch"), 3);
  ASSERT_TRUE(state.accelerate);
  const AccelerateNotes& notes = *state.accelerate;
  EXPECT_EQ(notes.processes, 1);
  EXPECT_EQ(notes.updates, kind == "sgd" ? std::nullopt : std::optional<int64_t>(3));
  EXPECT_EQ(notes.schedule->type, "LambdaLR");
  EXPECT_EQ(notes.schedule->steps, 3);
  EXPECT_EQ(notes.absent, std::vector<std::string>{"scaler.pt"});
  EXPECT_EQ(notes.not_used, std::vector<std::string>{});
}

TEST(AccelerateFolderTest, EveryTensorOfAFolderOfAccelerateIsRead) {
  expect_reads(source(kGolden), "adamw");
  expect_reads(source(kGolden), "sgd");
}

TEST(AccelerateFolderTest, HyperparametersKeepTheirKinds) {
  DiskFiles files;
  const std::string folder = source(kGolden) + "adamw";
  const TrainState state = CheckpointStore(files, ".").load(folder, with(kParameters));
  std::map<std::string, std::string> hyper;
  for (const auto& [key, value] : state.optimizer.groups.at(0).hyper) {
    hyper[key] = std::visit(HyperText(), value);
  }
  EXPECT_EQ(hyper, (std::map<std::string, std::string>{
                       {"lr", text_of(1e-3 / 4)},
                       {"betas", "(" + text_of(0.8) + "," + text_of(0.99) + ",)"},
                       {"eps", text_of(1e-8)},
                       {"weight_decay", text_of(0.01)},
                       {"amsgrad", "False"},
                       {"maximize", "False"},
                       {"foreach", "None"},
                       {"capturable", "False"},
                       {"differentiable", "False"},
                       {"fused", "None"},
                       {"decoupled_weight_decay", "True"}}));
}

TEST(AccelerateFolderTest, AnotherNumberOfParametersIsNamed) {
  DiskFiles files;
  const std::string folder = source(kGolden) + "adamw";
  const auto complaint = [&](const std::vector<std::string>& names) -> std::string {
    try {
      CheckpointStore(files, ".").load(folder, with(names));
      return "";
    } catch (const CheckpointError& error) {
      return error.what();
    }
  };
  const std::string start = "'" + folder + "/optimizer.bin' has 6 parameters, the recipe trains ";
  std::vector<std::string> names = kParameters;
  names.pop_back();
  EXPECT_EQ(complaint(names), start + "5");
  names = kParameters;
  names.push_back("3.weight");
  EXPECT_EQ(complaint(names), start + "7");
}

TEST(AccelerateFolderTest, RandomStatesOfAllProcessesAreReadUpToAGap) {
  const TempFolder folder;
  std::filesystem::copy(source(kGolden) + "adamw", folder.path("adamw"));
  for (const char* rank : {"1", "2", "4"}) {
    std::filesystem::copy(folder.path("adamw/random_states_0.pkl"),
                          folder.path("adamw/random_states_") + rank + ".pkl");
  }
  DiskFiles files;
  const TrainState state =
      CheckpointStore(files, ".").load(folder.path("adamw"), with(kParameters));
  EXPECT_EQ(state.other_rngs.size(), 2U);
  EXPECT_EQ(state.accelerate->processes, 4);
  EXPECT_EQ(state.accelerate->not_used, std::vector<std::string>{"random_states_4.pkl"});
}

TEST(AccelerateFolderTest, FilesToDoWithoutAreNotRead) {
  DiskFiles files;
  LoadOptions options = with(kParameters);
  options.without = {"optimizer.bin", "scheduler.bin", "random_states_0.pkl"};
  const TrainState state = CheckpointStore(files, ".").load(source(kGolden) + "adamw", options);
  EXPECT_TRUE(state.optimizer.groups.empty());
  EXPECT_FALSE(state.rng.defined());
  EXPECT_EQ(state.accelerate->absent,
            (std::vector<std::string>{"scheduler.bin", "optimizer.bin", "scaler.pt",
                                      "random_states_0.pkl"}));
}

TEST(AccelerateFolderTest, WithoutNamesTheOptimizerIsLeftOut) {
  DiskFiles files;
  const TrainState state = CheckpointStore(files, ".").load(source(kGolden) + "adamw");
  EXPECT_TRUE(state.optimizer.groups.empty());
  EXPECT_EQ(state.model.size(), 9U);
}

auto hyper_for_python(const std::string& kind) -> decltype(OptimizerState::Group::hyper) {
  if (kind == "adamw") {
    return {{"lr", 0.025},
            {"betas", std::vector<double>{0.8, 0.99}},
            {"eps", 1e-8},
            {"weight_decay", 0.01}};
  }
  return {{"lr", 0.025},
          {"momentum", 0.9},
          {"dampening", 0.0},
          {"nesterov", false},
          {"weight_decay", 0.01}};
}

/// What check_load_state.py looks for.
TrainState state_for_python(const std::string& kind) {
  const std::vector<std::pair<std::string, Shape>> shapes = {
      {"0.weight", {2, 3}}, {"0.bias", {2}}, {"1.weight", {2, 2}}};
  const auto ramp = [](const Shape& shape, float first) { return floats(shape, first - 0.5F); };
  TrainState state;
  state.progress.step = 5;
  state.seed = 1234;
  state.base_lrs = {0.1};
  state.lrs = {0.025};
  state.rng = at::detail::createCPUGenerator(1234).get_state();
  OptimizerState::Group group;
  group.hyper = hyper_for_python(kind);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& [name, shape] = shapes[i];
    const auto number = static_cast<float>(i);
    state.model.push_back({name, ramp(shape, number + 1)});
    OptimizerState::ParameterState parameter{name, {}};
    if (kind == "adamw") {
      parameter.slots = {{"step", ramp({}, 5)},
                         {"exp_avg", ramp(shape, number + 10)},
                         {"exp_avg_sq", ramp(shape, number + 20)}};
    } else {
      parameter.slots = {{"momentum_buffer", ramp(shape, number + 30)}};
    }
    group.parameters.push_back(std::move(parameter));
  }
  state.optimizer.groups = {std::move(group)};
  return state;
}

int run_python(const std::string& script, const std::string& arguments) {
  const std::string command = std::string(std::getenv("ACCEL_PYTHON")) + " " +
                              source("tests/interop/" + script) + " " + arguments;
  return std::system(command.c_str());
}

TEST(AccelerateInteropTest, AccelerateLoadsWhatWeSaveAndGoesOn) {
  if (!std::getenv("ACCEL_PYTHON")) GTEST_SKIP() << "ACCEL_PYTHON names no Python with accelerate";
  DiskFiles files;
  for (const std::string kind : {"adamw", "sgd"}) {
    const TempFolder folder;
    CheckpointStore store(files, folder.path());
    EXPECT_EQ(run_python("check_load_state.py", store.save(state_for_python(kind)) + " " + kind),
              0);
  }
}

TEST(AccelerateInteropTest, WhatThisMachinesAccelerateSavesIsRead) {
  if (!std::getenv("ACCEL_PYTHON")) GTEST_SKIP() << "ACCEL_PYTHON names no Python with accelerate";
  const TempFolder folder;
  ASSERT_EQ(run_python("make_accelerate_checkpoint.py", folder.path()), 0);
  expect_reads(folder.path(), "adamw");
  expect_reads(folder.path(), "sgd");
}

}  // namespace
}  // namespace accel::accelerate_interop_test
