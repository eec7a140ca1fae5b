#include "train/job/torch_setup.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

#include "kernels/choice.h"
#include "train/recipe/recipe.h"

namespace accel::torch_setup_test {
namespace {

/// Of the first processor that the system reports.
std::string reported(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(line.find(": ") + 2);
  }
  return {};
}

TEST(EnvironmentFactsTest, ProcessorIsItsMakerAndFamily) {
  EXPECT_EQ(environment_info().at("processor"),
            reported("vendor_id") + " " + reported("cpu family"));
}

int64_t threads_with(const char* openmp, int64_t local_world) {
  return default_threads(local_world, [&](const std::string&) {
    return openmp ? std::optional<std::string>(openmp) : std::nullopt;
  });
}

TEST(DefaultThreadsTest, OpenMpCountsOverTheShareOfTheCores) {
  const int64_t cores = threads_with(nullptr, 1);
  EXPECT_GE(cores, 1);
  EXPECT_EQ(threads_with(nullptr, 2 * cores), 1);
  EXPECT_EQ(threads_with("7", 1), 7);
  EXPECT_EQ(threads_with("7", 2 * cores), 7);
  EXPECT_EQ(threads_with("3,2", 1), 3) << "of the outer regions";
  for (const char* invalid : {"", "0", "-2", "many"}) EXPECT_EQ(threads_with(invalid, 1), cores);
}

TEST(SetUpTorchTest, KernelsThreadsAndDeterminismAreThoseOfTheRecipe) {
  const int64_t before = threads();
  RecipeOptions recipe;
  recipe.accelerator.kernels = Kernels::kFused;
  recipe.accelerator.num_cpu_threads_per_process = {3};
  recipe.train.deterministic = true;
  set_up_torch(recipe, 1);
  EXPECT_EQ(kernels(), Kernels::kFused);
  EXPECT_EQ(threads(), 3);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  recipe.accelerator = {};
  recipe.accelerator.kernels = Kernels::kReference;
  recipe.accelerator.reduction = Reduction::kCanonical;
  recipe.train.deterministic = false;
  set_up_torch(recipe, 1);
  EXPECT_EQ(kernels(), Kernels::kReference);
  EXPECT_EQ(threads(), 1) << "of a canonical reduction";
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  set_threads(before);
}

}  // namespace
}  // namespace accel::torch_setup_test
