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
#include <filesystem>
#include <fstream>

#include "core/sample_rng.h"
#include "runner/job/job.h"
#include "runner/loop/run.h"
#include "runner/loop/to_batch.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSamples = 4096;

/// An .npy file of `count` values of `size` bytes, drawn by `draw`.
template <class T, class Draw>
void write_npy(const fs::path& path, const std::string& type, const std::string& shape,
               int64_t count, Draw draw) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(117 - header.size(), ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size()) << '\0' << header;
  for (int64_t i = 0; i < count; ++i) {
    const T value = draw();
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

std::string write_data(const fs::path& folder) {
  SampleRng rng(1, 2, 3);
  const std::string n = std::to_string(kSamples);
  write_npy<uint8_t>(folder / "x.npy", "|u1", "(" + n + ", 1, 28, 28)", kSamples * 28 * 28,
                     [&] { return static_cast<uint8_t>(rng.below(256)); });
  write_npy<int64_t>(folder / "y.npy", "<i8", "(" + n + ",)", kSamples,
                     [&] { return static_cast<int64_t>(rng.below(10)); });
  return "{type: npy, scale: true, inputs: '" + (folder / "x.npy").string() + "', targets: '" +
         (folder / "y.npy").string() + "'}";
}

struct Setting {
  std::string model;
  int64_t batch, steps, rounds, workers;
};

std::unique_ptr<Job> make_job(const Setting& setting, const std::string& data) {
  static const Registry registry = [] {
    Registry made;
    Registration::enter_all(made);
    return made;
  }();
  const std::string text =
      "model: " + setting.model + "\ndata: {train: " + data +
      ", loader: {workers: " + std::to_string(setting.workers) +
      "}}\ncheckpoint: {every: never, at_end: false}\nlog: {every: 100 steps}\n"
      "train: {until: " +
      std::to_string(setting.steps) + " steps, batch: " + std::to_string(setting.batch) + "}\n";
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node tree = parse_recipe("bench.yaml", text);
  RecipeOptions recipe = read_recipe(tree, "bench", reading);
  Node resolved = resolve_recipe(recipe, tree);
  return build_job(std::move(recipe), std::move(resolved), registry);
}

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double bare_round(Job& job, const std::vector<Batch>& batches, int64_t steps) {
  return seconds([&] {
    for (int64_t i = 0; i < steps; ++i) {
      const Batch& batch = batches[static_cast<size_t>(i) % batches.size()];
      const at::Tensor loss = job.task->loss(*job.model, batch);
      loss.backward();
      job.optimizer->step();
      job.optimizer->zero_grad();
    }
  });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Setting& setting, const fs::path& folder) {
  const std::string data = write_data(folder);
  const auto bare = make_job(setting, data);
  std::vector<Batch> batches;
  for (int i = 0; i < 8; ++i) batches.push_back(to_batches(bare->train_loader->next()).front());
  bare->optimizer->set_lrs(bare->optimizer->base_lrs());
  bare_round(*bare, batches, 20);
  std::vector<double> ours, theirs;
  for (int64_t round = 0; round < setting.rounds; ++round) {
    theirs.push_back(bare_round(*bare, batches, setting.steps));
    const auto job = make_job(setting, data);
    RunRequest request;
    request.run_dir = (folder / ("run" + std::to_string(round))).string();
    ours.push_back(seconds([&] { run_job(*job, request); }));
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
  const accel::Setting setting{argc > 1 ? argv[1] : "lenet", number(2, 128), number(3, 100),
                               number(4, 5), number(5, 2)};
  std::string folder = (std::filesystem::temp_directory_path() / "accel-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  accel::measure(setting, folder);
  std::filesystem::remove_all(folder);
  return 0;
}
