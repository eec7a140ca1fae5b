// Tensors to arrays and back.
#include "checkpoint/tensors.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/format_error.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::tensors_test {
namespace {

TEST(TensorsTest, EveryTypeGoesThereAndBack) {
  for (const DType type :
       {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kU16, DType::kF16, DType::kBF16,
        DType::kI32, DType::kU32, DType::kF32, DType::kI64, DType::kU64, DType::kF64}) {
    Array array(type, {2, 0, 3});
    const Array back = array_of(tensor_of(array), "x");
    EXPECT_EQ(back.type(), type);
    EXPECT_EQ(back.shape(), array.shape());
  }
}

TEST(TensorsTest, ContiguousMemoryIsShared) {
  const at::Tensor tensor = floats({4}, 1);
  EXPECT_EQ(static_cast<const void*>(array_of(tensor, "x").data()), tensor.data_ptr());
}

TEST(TensorsTest, AViewIsMadeContiguous) {
  const at::Tensor tensor = floats({2, 3}, 0);
  const Array array = array_of(tensor.t(), "x");
  EXPECT_EQ(array.shape(), (Shape{3, 2}));
  const std::vector<float> values(array.as<float>().begin(), array.as<float>().end());
  EXPECT_EQ(values, (std::vector<float>{0.5, 2, 1, 2.5, 1.5, 3}));
}

TEST(TensorsTest, UnalignedMemoryIsCopied) {
  const auto memory = std::make_shared<std::array<std::byte, 16>>();
  const float value = 2.5F;
  std::memcpy(memory->data() + 1, &value, sizeof value);
  const at::Tensor tensor = tensor_of(Array(DType::kF32, {1}, memory->data() + 1, memory));
  EXPECT_EQ(tensor.item().toFloat(), 2.5F);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % sizeof(float), 0U);
}

TEST(AdoptWeightsTest, ParametersShareTheMemoryOfTheCheckpoint) {
  const at::Tensor plain = floats({2, 3}, 0).requires_grad_();
  const at::Tensor other_type = floats({4}, 0).to(at::kDouble);
  const at::Tensor strided = floats({2, 3}, 0).t();
  const at::Tensor whole = floats({4}, 0);
  const at::Tensor part = whole.slice(0, 0, 2);
  const at::Tensor buffer = floats({2}, 0);
  const std::vector<Parameter> parameters = {
      {"plain", plain}, {"other", other_type}, {"strided", strided}, {"part", part}};
  const std::vector<Parameter> saved = {{"plain", floats({2, 3}, 1)},
                                        {"other", floats({4}, 1)},
                                        {"strided", floats({3, 2}, 1)},
                                        {"part", floats({2}, 1)},
                                        {"buffer", floats({2}, 2)}};
  adopt_weights(parameters, {{"buffer", buffer}}, saved);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& mine = parameters[i].local;
    EXPECT_EQ(mine.const_data_ptr() == saved[i].local.const_data_ptr(), i == 0)
        << parameters[i].name;
    EXPECT_TRUE(at::equal(mine, saved[i].local.to(mine.scalar_type()))) << parameters[i].name;
  }
  EXPECT_TRUE(plain.requires_grad());
  EXPECT_TRUE(at::equal(whole.slice(0, 0, 2), part)) << "a view stays a view";
  EXPECT_TRUE(at::equal(buffer, saved[4].local));
  EXPECT_NE(buffer.const_data_ptr(), saved[4].local.const_data_ptr());
}

TEST(AdoptWeightsTest, NamesAndShapesMustBeTheModels) {
  const at::Tensor two = floats({2}, 0);
  const auto message_of = [&](const std::vector<Parameter>& saved) {
    try {
      adopt_weights({{"a", two}}, {}, saved);
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message_of({}), "the checkpoint's model has no 'a'");
  EXPECT_EQ(message_of({{"a", floats({3}, 0)}}),
            "'a' is [2] in the model but [3] in the checkpoint");
  EXPECT_EQ(message_of({{"a", two}, {"b", two}}),
            "the checkpoint's model has 'b', which this model lacks");
}

TEST(TensorsTest, AnUndefinedTensorIsABugWithAName) {
  try {
    array_of({}, "ema/w");
    FAIL() << "expected an error";
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()), "the tensor 'ema/w' is undefined");
  }
}

TEST(TensorsTest, AComplexTensorIsRefused) {
  try {
    array_of(floats({2}, 1).to(at::kComplexFloat), "w");
    FAIL() << "expected an error";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "the tensor 'w' is ComplexFloat, which checkpoints do not support");
  }
}

TEST(TensorsTest, NumbersMayBeZeroDimensionalTensors) {
  const Value list = Value::List{{Value(1), Value(array_of(whole(2), "x")), Value(0.5)}};
  EXPECT_EQ(numbers_in(&list, "base_lrs"), (std::vector<double>{1, 2, 0.5}));
  const Value words = Value::List{{Value("one")}};
  try {
    numbers_in(&words, "base_lrs");
    FAIL() << "expected an error";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "'base_lrs' is not a list of numbers");
  }
}

}  // namespace
}  // namespace accel::tensors_test
