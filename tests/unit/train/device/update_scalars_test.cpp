// Scalars of updates on a device, against those of the host.
#include "train/optim/update_scalars.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host_device/host_device.h"

namespace accel::update_scalars_test {
namespace {

/// Of steps 1 to 100, which vector instructions would compute together.
std::vector<at::Tensor> steps_on(at::Device device) {
  return at::arange(1, 101, at::kFloat).to(device).unbind();
}

/// The float32 bits of each scalar, by its product with 1.
std::vector<float> numbers_of(const UpdateScalars& scalars, at::Device device) {
  std::vector<float> out;
  for (const UpdateScalar& scalar : scalars.list()) {
    const at::Tensor one = at::tensor({1.0F}).to(device);
    out.push_back(scalar.scale_(one).item().toFloat());
  }
  return out;
}

TEST(UpdateScalarsTest, TheDeviceHasTheBitsOfTheHost) {
  using Formula = std::function<UpdateScalars(const UpdateScalars& x)>;
  const std::vector<std::pair<std::string, Formula>> formulas = {
      {"powers_of", [](const auto& x) { return x.powers_of(0.999); }},
      {"to_power", [](const auto& x) { return x.to_power(-0.8); }},
      {"to_power of a half", [](const auto& x) { return x.to_power(-0.5); }},
      {"sqrt", [](const auto& x) { return x.sqrt(); }},
      {"negated", [](const auto& x) { return x.negated(); }},
      {"subtracted_from", [](const auto& x) { return x.sqrt().subtracted_from(0.3); }},
      {"dividing", [](const auto& x) { return x.dividing(0.7); }},
      {"divided_by", [](const auto& x) { return x.divided_by(0.7); }},
      {"at_most", [](const auto& x) { return x.at_most(9.5); }},
      {"at_least", [](const auto& x) { return x.at_least(9.5); }},
      {"times", [](const auto& x) { return x.times(x.sqrt()); }},
      {"a quotient", [](const auto& x) { return x.divided_by(x.sqrt()); }},
      {"of counts", [](const auto& x) { return x.divided_by(std::vector<double>(100, 7.0)); }},
      {"bias_corrections", [](const auto& x) { return bias_corrections(x, 0.9).sqrt(); }}};
  for (const auto& [name, formula] : formulas) {
    const UpdateScalars here(steps_on(at::kCPU)), there(steps_on(host_device(1)));
    EXPECT_EQ(numbers_of(formula(there), host_device(1)), numbers_of(formula(here), at::kCPU))
        << name;
  }
  EXPECT_EQ(numbers_of(UpdateScalars(steps_on(at::kCPU)).powers_of(0.9), at::kCPU).at(2),
            static_cast<float>(std::pow(0.9, 3)));
}

TEST(UpdateScalarTest, TensorsOfEachTypeAreRoundedAsByANumber) {
  const at::Tensor values = at::arange(1, 40, at::kDouble).sin();
  const at::Tensor others = values.add(1.7);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const double value = 0.70123;
    const at::Tensor x = values.to(type), y = others.to(type);
    const at::Tensor on_device = at::tensor(value, at::kDouble).to(host_device(1));
    const UpdateScalar there(on_device), here(value);
    const auto moved = [](const at::Tensor& tensor) { return tensor.to(host_device(1)); };
    EXPECT_TRUE(there.divide(moved(x)).cpu().equal(x.div(value))) << type;
    EXPECT_TRUE(there.scale_(moved(x)).cpu().equal(x.mul(value))) << type;
    EXPECT_FALSE(x.mul(value).equal(x)) << type;
    const at::Tensor sum = moved(y), wanted = y.clone();
    there.addcdiv_(sum, moved(x), moved(y));
    here.addcdiv_(wanted, x, y);
    EXPECT_TRUE(wanted.equal(y.addcdiv(x, y, value))) << type;
    EXPECT_TRUE(sum.cpu().equal(wanted)) << type;
  }
}

TEST(UpdateScalarsTest, OfNoParametersThereAreNone) {
  EXPECT_TRUE(
      bias_corrections(UpdateScalars(std::vector<at::Tensor>()), 0.9).dividing(1).list().empty());
}

}  // namespace
}  // namespace accel::update_scalars_test
