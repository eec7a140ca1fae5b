// Accelerate's methods: what they refuse.
#include "accel/accelerator.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "checkpoint/tensors.h"
#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/reserved_port.h"

namespace accel::accelerator_test {
namespace {

constexpr auto kNoFolder = "/proc/self/none";
constexpr auto kSgd = "{type: sgd, lr: 0.1}";

/// A model of one parameter.
struct OneWeight : torch::nn::Module {
  explicit OneWeight(int64_t size) {
    const std::vector<float> values(static_cast<size_t>(size), 1);
    register_parameter("w", tensor_of(Array::of<float>(DType::kF32, {size}, values)));
  }
};

TEST(AcceleratorTest, InvalidOptionsAreRefused) {
  const std::pair<AcceleratorOptions, const char*> cases[] = {
      {{.gradient_accumulation_steps = 0},
       "'gradient_accumulation_steps' must be at least 1, not 0"},
      {{.mixed_precision = "fp8"}, "'mixed_precision' must be no, bf16 or fp16, not 'fp8'"},
  };
  for (const auto& [options, message] : cases) {
    EXPECT_EQ(complaint([&] { Accelerator accelerator(options); }), message);
  }
}

TEST(AcceleratorTest, AnOptimizerThatNeedsSampledLabelsIsRefused) {
  Accelerator accelerator;
  OneWeight module(1);
  EXPECT_EQ(complaint([&] { accelerator.prepare(module, "sophia"); }),
            "the optimizer 'sophia' estimates the Hessian from labels that a task samples, and a "
            "custom loop has no task\n"
            "use adamw, or train with accel-run");
}

TEST(AcceleratorTest, AStateIsThatOfACompleteGlobalBatch) {
  Accelerator accelerator({.gradient_accumulation_steps = 2});
  accelerator.accumulate();
  const auto message = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { accelerator.save_state("none"); }),
            "save_state() needs a complete global batch");
  EXPECT_EQ(message([&] { accelerator.load_state("none"); }),
            "load_state() needs a complete global batch");
}

TEST(AcceleratorTest, AModelOfAnotherShapeIsRefused) {
  const TempFolder folder;
  {
    OneWeight two(2);
    Accelerator accelerator;
    accelerator.prepare(two, kSgd);
    accelerator.save_state(folder.path("saved"));
  }
  OneWeight three(3);
  Accelerator accelerator;
  accelerator.prepare(three, kSgd);
  EXPECT_EQ(complaint([&] { accelerator.load_state(folder.path("saved")); }),
            "'w' is [3] in the model but [2] in the checkpoint");
}

TEST(AcceleratorTest, AModelOfAnotherNameIsRefused) {
  const TempFolder folder;
  Accelerator accelerator;
  accelerator.save_state(folder.path("saved"));
  OneWeight model(2);
  accelerator.prepare(model, kSgd);
  EXPECT_EQ(complaint([&] { accelerator.load_state(folder.path("saved")); }),
            "the checkpoint's model has no 'w'");
}

std::string failed_save() {
  Accelerator accelerator({.timeout = 60});
  return complaint([&] { accelerator.save_state(kNoFolder); });
}

/// The second of the two ranks below, in a separate process.
TEST(AcceleratorTest, DISABLED_Rank1) {
  std::printf("rank 1: %s\n", failed_save().c_str());
}

TEST(AcceleratorTest, EveryRankReportsThatAStateWasNotWritten) {
  const int64_t port = reserved_port();
  const std::pair<const char*, std::string> variables[] = {{"RANK", "0"},
                                                           {"WORLD_SIZE", "2"},
                                                           {"LOCAL_RANK", "0"},
                                                           {"LOCAL_WORLD_SIZE", "2"},
                                                           {"MASTER_ADDR", "127.0.0.1"},
                                                           {"MASTER_PORT", std::to_string(port)}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  FILE* const other = popen(("RANK=1 LOCAL_RANK=1 '" + self +
                             "' --gtest_also_run_disabled_tests --gtest_filter=*DISABLED_Rank1")
                                .c_str(),
                            "r");
  ASSERT_TRUE(other);
  const std::string found = failed_save();
  std::string printed;
  for (int byte = std::fgetc(other); byte != EOF; byte = std::fgetc(other)) {
    printed += static_cast<char>(byte);
  }
  pclose(other);
  for (const auto& variable : variables) unsetenv(variable.first);
  EXPECT_TRUE(found.starts_with(text("cannot write '{}': ", kNoFolder))) << found;
  EXPECT_NE(
      printed.find("rank 1: rank 0 cannot write '/proc/self/none'\nsee the error of rank 0\n"),
      std::string::npos)
      << printed;
}

}  // namespace
}  // namespace accel::accelerator_test
