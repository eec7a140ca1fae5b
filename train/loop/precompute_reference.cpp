#include "train/loop/precompute_reference.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/activity.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "models/layers/module_state.h"
#include "parallel/operations.h"
#include "train/job/torch_setup.h"
#include "train/loop/evaluate.h"
#include "train/step/device_batches.h"
#include "train/tasks/reference_model.h"

namespace accel {
namespace {

/// The random state of this process, which a run without the option does not touch either.
class KeptGenerator {
 public:
  KeptGenerator() : state_(generator_state()) {}
  ~KeptGenerator() { set_generator_state(state_); }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;

 private:
  at::Tensor state_;
};

/// What the scores by sample depend on.
std::string key_of(const Job& job) {
  Fingerprint key;
  key.add(job.data_fingerprint).add(job.weights_fingerprint).add(job.recipe.seed);
  key.add(job.eval_loader ? job.eval_loader->dataset().fingerprint() : "");
  key.add(detail::inline_text(job.recipe.model.resolved));
  key.add(detail::inline_text(job.recipe.task.resolved));
  key.add(static_cast<int64_t>(job.recipe.accelerator.mixed_precision));
  return key.text();
}

/// All samples of the dataset, each at least once, in its order.
std::unique_ptr<Loader> in_order(const Job& job, const Dataset& dataset) {
  const std::shared_ptr<const Dataset> kept(std::shared_ptr<const void>(), &dataset);
  LoaderOptions options;
  options.micro_batch = job.batches.micro_batch;
  options.world = job.batches.world;
  options.rank = job.data_rank;
  options.batch = options.micro_batch * options.world;
  options.shuffle = options.repeat = false;
  return std::make_unique<Loader>(kept, std::vector<std::unique_ptr<Transform>>(), options);
}

/// Scores by sample, with the number of times that each was computed.
class ScoreTable {
 public:
  explicit ScoreTable(int64_t samples) : samples_(samples), times_(static_cast<size_t>(samples)) {}

  void add(const std::vector<int64_t>& ids, const at::Tensor& scores) {
    const at::Tensor rows = scores.to(at::kCPU, at::kDouble).contiguous();
    width_ = rows.size(1);
    sums_.resize(static_cast<size_t>(samples_ * width_));
    const double* from = rows.const_data_ptr<double>();
    for (const int64_t id : ids) {
      for (int64_t i = 0; i < width_; ++i) sums_[static_cast<size_t>(id * width_ + i)] += *from++;
      times_[static_cast<size_t>(id)] += 1;
    }
  }

  /// Over the ranks of `group`, all of which have added a batch: [samples, width] F32.
  at::Tensor finish(Communicator& group) {
    sum_over_ranks(group, sums_, "reference");
    sum_over_ranks(group, times_, "reference");
    at::Tensor out = at::empty({samples_, width_}, at::kFloat);
    auto* to = out.mutable_data_ptr<float>();
    for (size_t i = 0; i < sums_.size(); ++i) {
      to[i] = static_cast<float>(sums_[i] / times_[i / static_cast<size_t>(width_)]);
    }
    return out;
  }

 private:
  int64_t samples_;
  int64_t width_ = 0;
  std::vector<double> sums_;
  std::vector<double> times_;
};

at::Tensor scores_by_sample(Job& job, PrecomputesReference& task, const Dataset& dataset) {
  const std::unique_ptr<Loader> loader = in_order(job, dataset);
  ScoreTable table(dataset.size());
  Activity shown("scoring the samples by the reference", "batches");
  for (int64_t done = 0; loader->has_next(); ++done) {
    const GlobalBatch global_batch = loader->next();
    const DeviceBatches batches(global_batch, job.device);
    for (const Batch& batch : batches.list()) {
      const AutocastScope casts = job.precision->autocast();
      table.add(batch.ids, task.reference_rows(*job.model, batch));
    }
    shown.progress(done + 1, loader->steps_per_epoch());
  }
  return table.finish(*job.mesh.data);
}

/// The mismatched answers of a micro-batch, whole and without the samples that do not count.
void add_mismatched(Job& job, PrecomputesReference& task, const GlobalBatch& global_batch,
                    ReferenceScores& scores) {
  const DeviceBatches batches(global_batch, job.device);
  for (size_t i = 0; i < batches.list().size(); ++i) {
    const Batch& batch = batches.list()[i];
    const AutocastScope casts = job.precision->autocast();
    task.add_mismatched(*job.model, batch, scores);
    const int64_t valid = global_batch.micro_batches[i].valid();
    if (valid > 0 && valid < batch.size()) {
      task.add_mismatched(*job.model, first_rows(batch, valid), scores);
    }
  }
}

/// Those of the steps to come, which this rank takes in their order, and of an evaluation.
void score_mismatched(Job& job, PrecomputesReference& task, const Progress& from,
                      ReferenceScores& train, ReferenceScores& eval) {
  Activity shown("scoring mismatched answers by the reference", "batches");
  job.train_loader->seek(from.epoch, from.step_in_epoch);
  for (int64_t step = from.step; step < job.length.total_steps; ++step) {
    add_mismatched(job, task, job.train_loader->next(), train);
    shown.progress(step - from.step + 1, job.length.total_steps - from.step);
  }
  job.train_loader->seek(from.epoch, from.step_in_epoch);
  if (!job.eval_loader) return;
  job.eval_loader->seek(0, 0);
  while (job.eval_loader->has_next()) {
    add_mismatched(job, task, job.eval_loader->next(), eval);
  }
}

constexpr std::string_view kScoresFormat = "accel-run reference scores 1 ";

void append_rows(std::string& to, const at::Tensor& rows) {
  const auto* from = reinterpret_cast<const char*>(rows.const_data_ptr<float>());
  to.append(from, static_cast<size_t>(rows.numel()) * sizeof(float));
}

/// The line before the numbers, with their digest: damaged ones are computed again.
std::string line_of(const std::string& key, std::string_view numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return text("{}{} {}\n", kScoresFormat, key, Fingerprint().add_content(bytes).text());
}

/// line_of(), then the numbers of training and eval data.
void write_scores(const std::string& path, const std::string& key, const ReferenceScores& train,
                  const ReferenceScores& eval) {
  std::string numbers;
  append_rows(numbers, train.rows);
  if (eval.rows.defined()) append_rows(numbers, eval.rows);
  write_file_atomically(path, line_of(key, numbers) + numbers);
}

at::Tensor rows_at(std::string_view content, size_t from, int64_t samples, int64_t width) {
  at::Tensor out = at::empty({samples, width}, at::kFloat);
  std::memcpy(out.mutable_data_ptr<float>(), content.data() + from,
              static_cast<size_t>(out.numel()) * sizeof(float));
  return out;
}

/// False: there are none of this key and these numbers of samples.
bool read_scores(const std::string& path, const std::string& key, const Job& job,
                 ReferenceScores& train, ReferenceScores& eval) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t end = content.find('\n');
  if (end == content.npos) return false;
  const std::string_view numbers = std::string_view(content).substr(end + 1);
  const int64_t samples = job.train_samples + job.eval_samples;
  if (samples == 0 || !content.starts_with(line_of(key, numbers))) return false;
  const size_t bytes = numbers.size(), row = bytes / static_cast<size_t>(samples);
  if (row % sizeof(float) != 0 || row * static_cast<size_t>(samples) != bytes) return false;
  const auto width = static_cast<int64_t>(row / sizeof(float));
  train.rows = rows_at(numbers, 0, job.train_samples, width);
  if (job.eval_loader) {
    const size_t before = static_cast<size_t>(job.train_samples) * row;
    eval.rows = rows_at(numbers, before, job.eval_samples, width);
  }
  return true;
}

/// Rank 0's scores on all ranks of `group`.
void share(Communicator& group, int64_t rank, int64_t samples, at::Tensor& rows) {
  std::vector<double> width = {rank == 0 ? static_cast<double>(rows.size(1)) : 0};
  sum_over_ranks(group, width, "reference");
  std::vector<double> values(static_cast<size_t>(samples) * static_cast<size_t>(width[0]));
  if (rank == 0) std::copy_n(rows.const_data_ptr<float>(), values.size(), values.begin());
  sum_over_ranks(group, values, "reference");
  rows = at::empty({samples, static_cast<int64_t>(width[0])}, at::kFloat);
  std::transform(values.begin(), values.end(), rows.mutable_data_ptr<float>(),
                 [](double value) { return static_cast<float>(value); });
}

/// Reads rank 0's file of an earlier start; false: there is none.
bool take_kept(Job& job, const std::string& path, ReferenceScores& train, ReferenceScores& eval) {
  const int64_t rank = job.data_rank;
  const bool found = rank == 0 && read_scores(path, key_of(job), job, train, eval);
  if (!any_rank(*job.mesh.data, found, "reference")) return false;
  share(*job.mesh.data, rank, job.train_samples, train.rows);
  if (job.eval_loader) share(*job.mesh.data, rank, job.eval_samples, eval.rows);
  return true;
}

}  // namespace

void precompute_reference(Job& job, const RunState& state, const std::string& run_dir) {
  auto* task = dynamic_cast<PrecomputesReference*>(job.task.get());
  if (!task || !task->precomputes_reference()) return;
  const KeptGenerator generator;
  const std::string path = run_dir + "/" + kReferenceScoresFile;
  ReferenceScores train, eval;
  const bool kept = take_kept(job, path, train, eval);
  if (!kept || task->mismatches_answers()) {
    with_evaluated_weights(job, [&] {
      if (Model* model = task->reference_model()) move_to(*model, job.device);
      if (!kept) train.rows = scores_by_sample(job, *task, job.train_loader->dataset());
      if (!kept && job.eval_loader) {
        eval.rows = scores_by_sample(job, *task, job.eval_loader->dataset());
      }
      if (task->mismatches_answers()) {
        score_mismatched(job, *task, state.progress, train, eval);
      }
    });
  }
  if (!kept && job.is_main) write_scores(path, key_of(job), train, eval);
  say(text("reference log-probabilities {} '{}'; the reference is not in memory",
           kept ? "read from" : "computed, kept in", path));
  task->set_reference(std::move(train), std::move(eval));
}

}  // namespace accel
