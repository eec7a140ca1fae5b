#include "train/job/torch_setup.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/stack.h>
#include <cpuid.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "core/base/parallel.h"
#include "core/recipe/scalar.h"
#include "kernels/cpu_operators.h"
#include "kernels/memory/caching_allocator.h"
#include "train/recipe/recipe.h"

namespace accel {
namespace {

/// "GenuineIntel 6": MKL and oneDNN select kernels by vendor and family, even among processors of
/// one capability. Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID leaves 0
/// and 1.
std::string processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return "unknown";
  std::string maker;
  for (const unsigned part : {b, d, c}) {
    for (unsigned shift = 0; shift < 32; shift += 8) maker += static_cast<char>(part >> shift);
  }
  __get_cpuid(1, &a, &b, &c, &d);
  constexpr unsigned kExtended = 15;
  const unsigned family = a >> 8U & 15U;
  return maker + " " + std::to_string(family == kExtended ? family + (a >> 20U & 255U) : family);
}

/// One for a canonical reduction: sums over several threads depend on their number.
int64_t threads_of(const AcceleratorSection& section, int64_t local_world) {
  if (section.num_cpu_threads_per_process) return *section.num_cpu_threads_per_process;
  if (section.reduction == Reduction::kCanonical) return 1;
  return default_threads(local_world, &environment_variable);
}

}  // namespace

void set_up_torch(const RecipeOptions& recipe, int64_t local_world) {
  use_caching_allocator();
  initialize_kernels(recipe.accelerator.kernels, recipe.accelerator.mkl_instructions);
  set_threads(threads_of(recipe.accelerator, local_world));
  set_deterministic(recipe.train.deterministic);
  if (recipe.accelerator.tf32) set_tf32(*recipe.accelerator.tf32);
}

void set_threads(int64_t threads) {
  at::set_num_threads(threads > 0 ? static_cast<int>(threads) : static_cast<int>(usable_cores()));
}

int64_t threads() {
  return at::get_num_threads();
}

int64_t openmp_threads(const EnvironmentLookup& lookup) {
  const std::string openmp = lookup("OMP_NUM_THREADS").value_or("");
  // A list has the threads of nested regions after the first number.
  const std::string first = openmp.substr(0, openmp.find(','));
  return std::max<int64_t>(0, parse_integer({first}).value.value_or(0));
}

int64_t default_threads(int64_t local_world, const EnvironmentLookup& lookup) {
  const int64_t wanted = openmp_threads(lookup);
  const auto cores = static_cast<int64_t>(usable_cores());
  return wanted > 0 ? wanted : std::max<int64_t>(1, cores / std::max<int64_t>(1, local_world));
}

bool takes_environment_threads(const AcceleratorSection& section) {
  const bool of_recipe =
      section.num_cpu_threads_per_process || section.reduction == Reduction::kCanonical;
  return !of_recipe && openmp_threads(&environment_variable) > 0;
}

void set_deterministic(bool on) {
  // What cuBLAS needs for it, from its first product on. With it, launching a product takes the
  // host 4 to 10 times as long.
  if (on) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(on, false);
}

void set_tf32(bool on) {
  at::globalContext().setAllowTF32CuBLAS(on);
  at::globalContext().setAllowTF32CuDNN(on);
}

void seed_generator(uint64_t seed) {
  at::manual_seed(seed);
}

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

uint64_t draw_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const uint64_t drawn = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  return drawn & static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

std::vector<at::Tensor> gather_generator_states(Communicator& world) {
  std::vector<at::Tensor> states;
  for (const at::Tensor& state : world.all_gather(generator_state(), "generators").unbind()) {
    states.push_back(state.clone());
  }
  return states;
}

at::Tensor device_generator_states(at::DeviceType type) {
  if (type == at::kCPU) return {};
  const at::DeviceIndex devices =
      at::globalContext().getAcceleratorHooksInterface(type).deviceCount();
  std::vector<at::Tensor> states;
  for (at::DeviceIndex i = 0; i < devices; ++i) states.push_back(device_generator_state({type, i}));
  return at::stack(states);
}

at::Tensor device_generator_state(at::Device device) {
  if (device.is_cpu()) return {};
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_device_generator_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state.clone());  // CPU generators misread views with an offset
}

void seed_device_generator(at::Device device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::map<std::string, std::string> environment_info() {
  return {{"torch", TORCH_VERSION},
          {"threads", std::to_string(threads())},
          {"cpu_capability", at::get_cpu_capability()},
          {"processor", processor()}};
}

}  // namespace accel
