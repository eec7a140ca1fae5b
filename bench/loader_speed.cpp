// Throughput of a recipe's data loader, without training.
//
//   loader_speed RECIPE STEPS
//
// Opens the data, including tokenization, and loads a batch of train.batch samples and STEPS more.
// Prints JSON: seconds and CPU seconds of opening, of the later batches, with their samples, and of
// all together; and samples a second of the later ones.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>

#include "bench/bench_job.h"

namespace accel {
namespace {

/// A moment in wall time and in the CPU time of this process's threads, in seconds.
struct Moment {
  double wall, cpu;

  static Moment now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(since).count(),
            static_cast<double>(std::clock()) / CLOCKS_PER_SEC};
  }
};

void print_span(const char* name, const Moment& from, const Moment& to, int64_t samples) {
  std::printf("\"%s\": {\"seconds\": %.6f, \"cpu\": %.6f, \"items\": %ld}, ", name,
              to.wall - from.wall, to.cpu - from.cpu, static_cast<long>(samples));
}

void measure(const char* recipe, int64_t global_batches) {
  std::ifstream file(recipe);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Moment start = Moment::now();
  const auto job = make_job_of(text);
  const Moment opened = Moment::now();
  const int64_t first = job->train_loader->next().samples;
  int64_t later = 0;
  const Moment begun = Moment::now();
  for (int64_t i = 0; i < global_batches; ++i) later += job->train_loader->next().samples;
  const Moment end = Moment::now();
  std::printf("{");
  print_span("open", start, opened, 0);
  print_span("later", begun, end, later);
  print_span("all", start, end, first + later);
  std::printf("\"samples_per_second\": %.3f}\n",
              static_cast<double>(later) / (end.wall - begun.wall));
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
