// Models against PyTorch's: weights of a seed to the last bit, and the losses of the first steps.
// tests/interop/make_golden_models.py writes what is wanted.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"

namespace accel::golden_test {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json = [] {
    const char* own = std::getenv("ACCEL_GOLDEN_MODELS");
    const char* source = std::getenv("ACCEL_SOURCE_DIR");
    const std::string path =
        own ? own : std::string(source ? source : ".") + "/tests/interop/golden/models.json";
    std::ifstream file(path);
    return Json::parse(file);
  }();
  return json;
}

/// PyTorch draws normal numbers by another formula on CPUs of another kind.
bool same_kind_of_cpu() {
  return golden()["cpu"] == at::get_cpu_capability();
}

DataShape shape_of(const Json& data) {
  DataShape shape;
  shape.input = data["input"].get<Shape>();
  shape.classes = data.value("classes", int64_t{0});
  shape.vocab = data.value("vocab", int64_t{0});
  if (shape.vocab > 0) {
    shape.input_type = DType::kI64;
    shape.target = shape.input;
  } else if (shape.classes == 0) {
    shape.target_type = DType::kF32;
    shape.target = data["target"].get<Shape>();
  }
  return shape;
}

/// Inputs, then targets, drawn in the order the script draws them.
Batch batch_of(const DataShape& shape) {
  Shape input = {4}, target = {4};
  input.insert(input.end(), shape.input.begin(), shape.input.end());
  target.insert(target.end(), shape.target.begin(), shape.target.end());
  const auto ids = at::TensorOptions().dtype(at::kLong);
  Batch batch;
  batch.ids = {0, 1, 2, 3};
  batch.inputs = shape.vocab > 0 ? at::randint(shape.vocab, input, ids) : at::randn(input);
  if (shape.vocab > 0) {
    batch.targets = at::randint(shape.vocab, target, ids);
    batch.targets.narrow(1, 0, 3).fill_(-100);
  } else {
    batch.targets = shape.classes > 0 ? at::randint(shape.classes, target, ids) : at::randn(target);
  }
  return batch;
}

uint32_t checksum(const at::Tensor& tensor, uint32_t before = 0) {
  const at::Tensor bytes = tensor.detach().contiguous();
  return static_cast<uint32_t>(crc32(before, static_cast<const Bytef*>(bytes.const_data_ptr()),
                                     static_cast<uInt>(bytes.nbytes())));
}

std::string hex(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

void expect_initial_weights(Model& model, const Json& wanted) {
  const auto parameters = model.module().named_parameters();
  EXPECT_EQ(parameters.size(), wanted.size());
  for (const auto& parameter : parameters) {
    ASSERT_TRUE(wanted.contains(parameter.key())) << parameter.key();
    const auto sizes = parameter->sizes();
    const std::string shape = to_string(Shape(sizes.begin(), sizes.end()));
    const std::string text = wanted[parameter.key()].get<std::string>();
    EXPECT_TRUE(text.starts_with(shape + " ")) << parameter.key() << shape << text;
    if (same_kind_of_cpu()) {
      EXPECT_EQ(shape + " " + hex(checksum(*parameter)), text) << parameter.key();
    }
  }
}

double descend(Model& model, Task& task, const Batch& batch, double lr) {
  const at::Tensor loss = task.loss(model, batch);
  model.module().zero_grad();
  loss.backward();
  const at::NoGradGuard no_grad;
  for (auto& parameter : model.module().parameters()) parameter.add_(parameter.grad(), -lr);
  return loss.item<double>();
}

class GoldenModelTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModelTest, StartsAndLearnsAsInPyTorch) {
  const Json& wanted = golden()["cases"][GetParam()];
  at::set_num_threads(1);
  at::manual_seed(wanted["seed"].get<uint64_t>());
  const DataShape shape = shape_of(wanted["data"]);
  const auto model = build<Model>(wanted["model"].dump(), {shape});
  const auto task = build<Task>(wanted["task"].dump(), {shape});
  expect_initial_weights(*model, wanted["parameters"]);

  const bool exact = golden()["exact"].get<bool>();
  const Batch batch = batch_of(shape);
  for (const double loss : wanted["losses"].get<std::vector<double>>()) {
    const double own = descend(*model, *task, batch, golden()["lr"].get<double>());
    if (exact) {
      EXPECT_EQ(own, loss);
    } else if (same_kind_of_cpu()) {
      EXPECT_NEAR(own, loss, 1e-5 * loss);
    }
  }
  if (!exact) return;
  uint32_t trained = 0;
  for (const auto& parameter : model->module().parameters()) {
    trained = checksum(parameter, trained);
  }
  EXPECT_EQ(hex(trained), wanted["trained"].get<std::string>());
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : golden()["cases"].items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModelTest, testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace accel::golden_test
