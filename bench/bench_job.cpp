#include "bench/bench_job.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>

#include <fstream>
#include <system_error>

#include "core/api/sample_rng.h"
#include "train/job/build_job.h"
#include "train/recipe/recipe.h"
#include "train/step/device_batches.h"

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

void write_data(const fs::path& folder) {
  SampleRng rng(1, 2, 3);
  const std::string n = std::to_string(kSamples);
  write_npy<uint8_t>(folder / "x.npy", "|u1", "(" + n + ", 1, 28, 28)", kSamples * 28 * 28,
                     [&] { return static_cast<uint8_t>(rng.below(256)); });
  write_npy<int64_t>(folder / "y.npy", "<i8", "(" + n + ",)", kSamples,
                     [&] { return static_cast<int64_t>(rng.below(10)); });
}

void bare_step(Job& job, const Batch& batch) {
  const at::Tensor loss = job.task->loss(*job.model, batch);
  loss.backward();
  job.optimizer->step();
  job.optimizer->zero_grad();
}

fs::path new_folder() {
  std::string path = (fs::temp_directory_path() / "accel-bench-XXXXXX").string();
  if (!mkdtemp(path.data())) throw std::system_error(errno, std::generic_category(), path);
  return path;
}

}  // namespace

BenchFolder::BenchFolder() : path_(new_folder()) {
  write_data(path_);
}

BenchFolder::~BenchFolder() {
  std::error_code left;  // ignored
  fs::remove_all(path_, left);
}

std::unique_ptr<Job> make_job_of(const std::string& text) {
  static const Registry registry = [] {
    Registry made;
    Registration::enter_all(made);
    return made;
  }();
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node tree = parse_recipe("bench.yaml", text);
  RecipeOptions recipe = read_recipe(tree, "bench", reading);
  problems.check();
  Node resolved = resolve_recipe(recipe, tree);
  return build_job(std::move(recipe), std::move(resolved), registry);
}

std::unique_ptr<Job> make_bench_job(const BenchSetting& setting, const BenchFolder& folder) {
  return make_job_of(
      "model: " + setting.model + "\ndata: {train: {type: npy, scale: true, inputs: '" +
      (folder.path() / "x.npy").string() + "', targets: '" + (folder.path() / "y.npy").string() +
      "'}, loader: {workers: " + std::to_string(setting.workers) +
      "}}\ncheckpoint: {every: never, at_end: false}\nlog: {every: " + setting.log +
      "}\ntrain: {until: " + std::to_string(setting.steps) +
      " steps, batch: " + std::to_string(setting.batch) + "}\n" + setting.more);
}

std::vector<Batch> first_batches(Job& job) {
  std::vector<Batch> batches;
  for (int i = 0; i < 8; ++i) {
    batches.push_back(to_batch(job.train_loader->next().micro_batches.front()));
  }
  return batches;
}

void bare_steps(Job& job, const std::vector<Batch>& batches, int64_t steps) {
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  for (int64_t i = 0; i < steps; ++i) {
    bare_step(job, batches[static_cast<size_t>(i) % batches.size()]);
  }
}

void bare_steps_over_data(Job& job, int64_t batch, int64_t steps) {
  const at::Tensor images = at::randint(256, {kSamples, 1, 28, 28}, at::kByte);
  const at::Tensor labels = at::randint(10, {kSamples}, at::kLong);
  const int64_t steps_per_epoch = kSamples / batch;
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  at::Tensor order;
  Batch now{.inputs = {}, .targets = {}, .ids = std::vector<int64_t>(static_cast<size_t>(batch))};
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t step = i % steps_per_epoch;
    if (step == 0) order = at::randperm(kSamples, at::kLong);
    const at::Tensor drawn = order.narrow(0, step * batch, batch);
    now.inputs = images.index_select(0, drawn).to(at::kFloat).div_(255);
    now.targets = labels.index_select(0, drawn);
    bare_step(job, now);
  }
}

}  // namespace accel
