// Throughput of a recipe's data loader, without training.
//
//   loader_speed RECIPE STEPS
//
// Opens the data, including tokenization, and loads STEPS batches of train.batch samples.
// Prints JSON: seconds to open, and samples a second.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "bench/bench_job.h"

namespace accel {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(const char* recipe, int64_t global_batches) {
  std::ifstream file(recipe);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto start = std::chrono::steady_clock::now();
  const auto job = make_job_of(text);
  const double open = seconds_since(start);
  job->train_loader->next();
  int64_t samples = 0;
  const auto first = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < global_batches; ++i) samples += job->train_loader->next().samples;
  const double seconds = seconds_since(first);
  std::printf("{\"open\": %.6f, \"samples\": %ld, \"samples_per_second\": %.3f}\n", open,
              static_cast<long>(samples), static_cast<double>(samples) / seconds);
}

}  // namespace
}  // namespace accel

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: loader_speed RECIPE STEPS\n", stderr);
    return 2;
  }
  accel::measure(argv[1], std::atoll(argv[2]));
  return 0;
}
