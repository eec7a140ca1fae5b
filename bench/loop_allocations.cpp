// Heap allocations of accel-run's code in a steady step of the loop, compared with a bare loop.
// Counts the training thread only, without allocations inside libtorch.
//
//   loop_allocations [MODEL] [BATCH] [STEPS] [WORKERS] [sites]
//
// Counts STEPS steps after as many warm-up steps, without log lines. The last line of output is
// JSON with allocations per step. With `sites` it prints the call sites, most frequent first, as
// addresses for addr2line.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/bench_job.h"
#include "bench/count_steps.h"
#include "train/loop/run.h"

namespace accel {
namespace {

Allocations of_run(BenchSetting setting, const BenchFolder& folder) {
  const int64_t first = setting.steps, last = 2 * setting.steps;
  setting.steps = last + 1;  // the last step logs
  const auto job = make_bench_job(setting, folder);
  Allocations found;
  count_steps(*job, first, last, found);
  RunRequest request;
  request.run_dir = (folder.path() / "run").string();
  run_job(*job, request);
  return found;
}

Allocations of_bare_loop(const BenchSetting& setting, const BenchFolder& folder) {
  const auto job = make_bench_job(setting, folder);
  const std::vector<Batch> batches = first_batches(*job);
  bare_steps(*job, batches, 2);
  Allocations found;
  const CountAllocations counting(found);
  bare_steps(*job, batches, setting.steps);
  return found;
}

void tell_sites(const Allocations& found, int64_t steps) {
  std::vector<std::pair<int64_t, AllocationSite>> sites;
  for (const auto& [site, times] : found.sites) sites.emplace_back(times, site);
  std::sort(sites.rbegin(), sites.rend());
  for (const auto& [times, site] : sites) {
    std::printf("%.2f", static_cast<double>(times) / static_cast<double>(steps));
    for (void* const frame : site) {
      Dl_info of{};
      dladdr(frame, &of);
      std::printf(" %#lx",
                  static_cast<long>(static_cast<char*>(frame) - static_cast<char*>(of.dli_fbase)));
    }
    std::printf("\n");
  }
}

void measure(const BenchSetting& setting, bool sites) {
  const BenchFolder folder;
  const Allocations bare = of_bare_loop(setting, folder);
  const Allocations loop = of_run(setting, folder);
  if (sites) tell_sites(loop, setting.steps);
  const auto a_step = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(setting.steps);
  };
  std::printf(
      "{\"model\": \"%s\", \"workers\": %ld, \"own\": %.3f, \"own_bare\": %.3f, \"all\": %.3f, "
      "\"all_bare\": %.3f}\n",
      setting.model.c_str(), static_cast<long>(setting.workers), a_step(loop.own), a_step(bare.own),
      a_step(loop.all), a_step(bare.all));
}

}  // namespace
}  // namespace accel

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t other) { return argc > i ? std::atoll(argv[i]) : other; };
  const accel::BenchSetting setting{.model = argc > 1 ? argv[1] : "mlp",
                                    .batch = number(2, 64),
                                    .steps = number(3, 50),
                                    .workers = number(4, 1),
                                    .log = "never"};
  accel::measure(setting, argc > 5 && std::string_view(argv[5]) == "sites");
  return 0;
}
