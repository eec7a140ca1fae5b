// Exported programs on a device that is not the CPU: all that they hold is there, and what they
// make.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/api/model.h"
#include "models/layers/module_state.h"
#include "models/program/aten_graph.h"
#include "tests/host_device/host_device.h"
#include "tests/unit/build_component.h"
#include "train/job/torch_setup.h"

namespace accel::program_device_test {
namespace {

std::unique_ptr<Model> program(const std::string& name, const std::string& more,
                               const DataShape& data) {
  ModelContext context;
  context.data = data;
  return build<Model>("{type: exported, file: '" + std::string(std::getenv("ACCEL_SOURCE_DIR")) +
                          "/tests/unit/models/golden/exported/" + name + ".pt2'" + more + "}",
                      context);
}

/// Numbers that a pass gives: its output, then the parameters' gradients.
std::vector<at::Tensor> numbers_of(Model& model, const Batch& batch, at::Device device) {
  seed_generator(7);
  if (!device.is_cpu()) set_device_generator_state(device, generator_state());
  const at::Tensor output = model.forward_batch(batch);
  EXPECT_EQ(output.device(), device);
  output.pow(2).sum().backward();
  std::vector<at::Tensor> out = {output.detach().cpu()};
  for (const Parameter& item : parameters_of(model)) {
    if (item.local.grad().defined()) out.push_back(item.local.grad().cpu());
  }
  return out;
}

Batch moved(const Batch& batch, at::Device device) {
  Batch out = batch;
  out.inputs = batch.inputs.to(device);
  if (batch.lengths.defined()) out.lengths = batch.lengths.to(device);
  return out;
}

void compare(Model& here, Model& there, const Batch& batch, double tolerance) {
  const at::Device device = host_device(1);
  move_to(there, device);
  for (const bool training : {true, false}) {
    set_training(here, training);
    set_training(there, training);
    const int64_t calls = host_device_calls();
    const auto wanted = numbers_of(here, batch, at::kCPU);
    const auto found = numbers_of(there, moved(batch, device), device);
    EXPECT_GT(host_device_calls(), calls + 10);
    ASSERT_EQ(found.size(), wanted.size());
    EXPECT_GT(found.size(), 2U);
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(found[i].allclose(wanted[i], tolerance, tolerance)) << i;
    }
  }
}

TEST(DeviceProgramTest, ConstantsAndWhatStateDictLeavesOutMoveWithTheModel) {
  const DataShape data = {.input = {4}, .classes = 4};
  const auto here = program("mixed", ", output: logits", data);
  const auto there = program("mixed", ", output: logits", data);
  Batch batch;
  batch.inputs = at::arange(12).view({3, 4}).to(at::kFloat).sub(5).div(7);
  batch.ids = {0, 1, 2};
  compare(*here, *there, batch, 0);
}

TEST(DeviceProgramTest, MasksAreMadeWhereTheBatchIs) {
  DataShape data = {.input = {6}, .input_type = DType::kI64, .classes = 3, .vocab = 7};
  data.padding = Padding{};
  Batch batch;
  batch.inputs = at::arange(12).remainder(7).view({2, 6});
  batch.ids = {0, 1};
  // Attention has its own kernel on the CPU.
  compare(*program("words", "", data), *program("words", "", data), batch, 1e-5);
  batch.lengths = at::arange(5, 7);
  compare(*program("words", "", data), *program("words", "", data), batch, 1e-5);
}

/// x + arange(3): the exporter's device is no one's.
Pt2Graph sum_with_places(const std::vector<std::pair<std::string, Pt2Argument>>& more) {
  Pt2Graph graph;
  graph.slots = 3;
  graph.inputs = {{Pt2Slot{0}}};
  std::vector<std::pair<std::string, Pt2Argument>> arguments = {{"end", {int64_t{3}}}};
  arguments.insert(arguments.end(), more.begin(), more.end());
  graph.nodes = {{"places", "torch.ops.aten.arange.default", "", arguments, {{Pt2Slot{1}}}},
                 {"sum",
                  "torch.ops.aten.add.Tensor",
                  "",
                  {{"self", {Pt2Slot{0}}}, {"other", {Pt2Slot{1}}}},
                  {{Pt2Slot{2}}}}};
  graph.outputs = {{Pt2Slot{2}}};
  return graph;
}

TEST(DeviceProgramTest, WhatAProgramMakesIsMadeWhereItRuns) {
  for (const bool is_named : {true, false}) {
    const AtenGraph graph(is_named ? sum_with_places({{"device", {Pt2Device{}}}})
                                   : sum_with_places({}));
    for (const at::Device device : {at::Device(at::kCPU), host_device(0), host_device(1)}) {
      const auto out = graph.run({at::full({3}, 2.0).to(device)});
      EXPECT_EQ(out.at(0).toTensor().device(), device);
      EXPECT_TRUE(out.at(0).toTensor().cpu().equal(at::arange(2, 5).to(at::kFloat)));
    }
  }
}

}  // namespace
}  // namespace accel::program_device_test
