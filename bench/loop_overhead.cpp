// What the loop itself costs: the same steps of the same model by TrainLoop, with its loader,
// record, checks and log lines, and by a bare loop over batches that are ready in memory. Both in
// one process, in alternating rounds; the medians' ratio is what counts.
//
//   loop_overhead [MODEL] [BATCH] [STEPS] [ROUNDS] [WORKERS]
//
// The last line it prints is JSON; times are milliseconds a step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench/bench_job.h"
#include "runner/loop/run.h"

namespace accel {
namespace {

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of_run(const BenchSetting& setting, const BenchFolder& folder) {
  const auto job = make_bench_job(setting, folder);
  static int runs = 0;
  RunRequest request;
  request.run_dir = (folder.path() / std::to_string(++runs)).string();
  return seconds([&] { run_job(*job, request); });
}

/// A run of few steps is taken from each of many: what remains has neither start nor end.
void measure(const BenchSetting& setting, int64_t rounds) {
  const BenchFolder folder;
  const auto bare = make_bench_job(setting, folder);
  const std::vector<Batch> batches = first_batches(*bare);
  BenchSetting start = setting, whole = setting;
  start.steps = 20;
  whole.steps += start.steps;
  bare_steps(*bare, batches, start.steps);
  std::vector<double> ours, theirs;
  for (int64_t round = 0; round < rounds; ++round) {
    theirs.push_back(seconds([&] { bare_steps(*bare, batches, setting.steps); }));
    const double before = seconds_of_run(start, folder);
    ours.push_back(seconds_of_run(whole, folder) - before);
  }
  const double n = static_cast<double>(setting.steps), a = median(ours), b = median(theirs);
  std::printf(
      "{\"model\": \"%s\", \"batch\": %ld, \"workers\": %ld, \"loop\": %.4f, \"bare\": %.4f, "
      "\"ratio\": %.4f}\n",
      setting.model.c_str(), static_cast<long>(setting.batch), static_cast<long>(setting.workers),
      1e3 * a / n, 1e3 * b / n, a / b);
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
