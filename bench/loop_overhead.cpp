// Overhead of the training loop: the same steps of the same model by TrainLoop, with loader,
// record, checks and log lines, by a bare loop over batches in memory, and by one that gathers
// batches from data in memory. In one process, alternating; the result is the ratio of medians to
// the first.
//
//   loop_overhead [MODEL] [BATCH] [STEPS] [ROUNDS] [WORKERS]
//
// The last line of output is JSON; times are milliseconds per step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench/bench_job.h"
#include "bench/between_steps.h"
#include "train/loop/run.h"

namespace accel {
namespace {

constexpr int64_t kWarmUp = 20;  // steps

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Times of `setting.steps` steps of a run, after warm-up.
double seconds_of_run(BenchSetting setting, const BenchFolder& folder) {
  static int runs = 0;
  RunRequest request;
  request.run_dir = (folder.path() / std::to_string(++runs)).string();
  const int64_t last = kWarmUp + setting.steps;
  setting.steps = last + 1;
  const auto job = make_bench_job(setting, folder);
  std::chrono::steady_clock::time_point begin, end;
  between_steps(
      *job, kWarmUp, last, [&] { begin = std::chrono::steady_clock::now(); },
      [&] { end = std::chrono::steady_clock::now(); });
  run_job(*job, request);
  return std::chrono::duration<double>(end - begin).count();
}

/// Times of as many steps of a bare loop. With a new model each time: an overfitted one has
/// denormal gradients, which are slower.
double seconds_of_bare_steps(const BenchSetting& setting, const BenchFolder& folder) {
  const auto job = make_bench_job(setting, folder);
  const std::vector<Batch> batches = first_batches(*job);
  bare_steps(*job, batches, kWarmUp);
  const auto begin = std::chrono::steady_clock::now();
  bare_steps(*job, batches, setting.steps);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double seconds_of_steps_over_data(const BenchSetting& setting, const BenchFolder& folder) {
  const auto job = make_bench_job(setting, folder);
  bare_steps_over_data(*job, setting.batch, kWarmUp);
  const auto begin = std::chrono::steady_clock::now();
  bare_steps_over_data(*job, setting.batch, setting.steps);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const BenchSetting& setting, int64_t rounds) {
  const BenchFolder folder;
  std::vector<double> ours, theirs, gathered;
  for (int64_t round = 0; round < rounds; ++round) {
    theirs.push_back(seconds_of_bare_steps(setting, folder));
    ours.push_back(seconds_of_run(setting, folder));
    gathered.push_back(seconds_of_steps_over_data(setting, folder));
  }
  const double n = static_cast<double>(setting.steps);
  const double a = median(ours), b = median(theirs), c = median(gathered);
  std::printf(
      "{\"model\": \"%s\", \"batch\": %ld, \"workers\": %ld, \"loop\": %.4f, \"bare\": %.4f, "
      "\"ratio\": %.4f, \"bare_gathering\": %.4f, \"ratio_gathering\": %.4f}\n",
      setting.model.c_str(), static_cast<long>(setting.batch), static_cast<long>(setting.workers),
      1e3 * a / n, 1e3 * b / n, a / b, 1e3 * c / n, a / c);
}

}  // namespace
}  // namespace accel

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t other) { return argc > i ? std::atoll(argv[i]) : other; };
  const accel::BenchSetting setting{.model = argc > 1 ? argv[1] : "lenet",
                                    .batch = number(2, 128),
                                    .steps = number(3, 100),
                                    .workers = number(5, 2)};
  accel::measure(setting, number(4, 5));
  return 0;
}
