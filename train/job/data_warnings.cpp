#include "train/job/data_warnings.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/loader/mixture.h"
#include "data/loader/row_choice.h"
#include "data/loader/selected_samples.h"

namespace accel {
namespace {

/// The class of all samples added so far.
struct SameClass {
  std::optional<int64_t> label;
  bool differs = false;  ///< or unknown

  void add(int64_t other) {
    differs = differs || (label && *label != other);
    label = other;
  }
};

void add_classes(const Dataset& dataset, SameClass& same) {
  if (const Concatenation* parts = parts_of(dataset)) {
    for (const auto& source : parts->sources()) add_classes(*source, same);
    return;
  }
  const auto* selection = dynamic_cast<const SelectedSamples*>(&dataset);
  const Dataset& source = selection ? selection->source() : dataset;
  const auto* known = dynamic_cast<const ClassLabels*>(&source);
  same.differs = same.differs || !known;
  for (int64_t i = 0; i < dataset.size() && !same.differs; ++i) {
    same.add(known->class_of(selection ? selection->row(i) : i));
  }
}

std::optional<std::string> single_class(const Dataset& dataset) {
  const DataShape shape = dataset.shape();
  SameClass same;
  if (has_classes(shape)) add_classes(dataset, same);
  if (!same.label || same.differs || dataset.size() < 2) return std::nullopt;
  const auto label = static_cast<size_t>(*same.label);
  const std::string name =
      label < shape.labels.size() ? shape.labels[label] : std::to_string(label);
  return text(
      "all {} training samples are of the class '{}': a model cannot learn from them to "
      "tell classes apart",
      dataset.size(), name);
}

uint64_t digest_of(const Sample& sample) {
  return Fingerprint()
      .add_content({sample.input.data(), sample.input.bytes()})
      .add_content({sample.target.data(), sample.target.bytes()})
      .value();
}

/// Calls `use` with the digests of at most `most` evenly spaced samples, for at most 25 ms. Returns
/// their number.
template <class Use>
int64_t each_digest(const Dataset& dataset, int64_t most, const Use& use) {
  constexpr auto kTime = std::chrono::milliseconds(25);
  const auto end = std::chrono::steady_clock::now() + kTime;
  const int64_t count = std::min(dataset.size(), most);
  int64_t read = 0;
  while (read < count && std::chrono::steady_clock::now() < end) {
    // Strides of a prime spread the samples that the time allows for over the dataset.
    constexpr int64_t kStride = 7919;
    const int64_t index = count % kStride == 0 ? read : read * kStride % count;
    // index * size / count, without its overflow.
    const int64_t size = dataset.size();
    use(digest_of(dataset.sample(index * (size / count) + index * (size % count) / count)));
    ++read;
  }
  return read;
}

std::string sampled(int64_t checked, int64_t all) {
  return checked == all ? std::to_string(all) : text("{} of {}", checked, all);
}

/// The eval samples among `checked` that would equal a training sample without a leak, by the share
/// of training samples that equal another one: rows of a few categories repeat. The bound is three
/// standard deviations above the mean.
double natural_overlap(const std::unordered_map<uint64_t, int64_t>& trained, int64_t of_train,
                       int64_t checked) {
  int64_t repeated = 0;
  for (const auto& [digest, count] : trained) repeated += count > 1 ? count : 0;
  const auto samples = static_cast<double>(checked);
  const double share = static_cast<double>(repeated) / static_cast<double>(of_train);
  return samples * share + 3 * std::sqrt(samples * share * (1 - share));
}

std::optional<std::string> overlap(const Dataset& train, const Dataset& eval) {
  constexpr int64_t kMostEval = 2'000, kMostTrain = 20'000;
  std::vector<uint64_t> digests;
  const int64_t checked =
      each_digest(eval, kMostEval, [&](uint64_t digest) { digests.push_back(digest); });
  std::unordered_map<uint64_t, int64_t> trained;
  const int64_t of_train =
      each_digest(train, kMostTrain, [&](uint64_t digest) { ++trained[digest]; });
  const auto both = static_cast<int64_t>(std::count_if(
      digests.begin(), digests.end(), [&](uint64_t digest) { return trained.contains(digest); }));
  if (both == 0) return std::nullopt;
  // Single duplicates are common; a twentieth of the eval data is a leak.
  constexpr double kLeak = 0.05;
  const auto found = static_cast<double>(both);
  const double natural = natural_overlap(trained, of_train, checked);
  const double share = static_cast<double>(of_train) / static_cast<double>(train.size());
  const bool is_leak = found - natural >= kLeak * static_cast<double>(checked) * share;
  if (!is_leak && train.fingerprint() != eval.fingerprint()) return std::nullopt;
  std::string line = text(
      "{} of {} eval samples are in the training data too: results are better "
      "than they would be on new data",
      both, checked);
  if (checked == eval.size() && of_train == train.size()) return line;
  return text("{}; compared: {} eval samples with {} training samples", line,
              sampled(checked, eval.size()), sampled(of_train, train.size()));
}

/// The loss of a contrastive task depends on the micro-batch, not on the global batch.
std::optional<std::string> few_negatives(const Job& job) {
  if (job.recipe.task.type != "contrastive") return std::nullopt;
  const int64_t pairs = job.batches.micro_batch, batch = job.batches.batch;
  if (pairs >= batch) return std::nullopt;
  return text(
      "the contrastive loss compares the {} pairs of a micro-batch, not the {} of the global "
      "batch: ranks and accumulation add no negatives",
      pairs, batch);
}

}  // namespace

std::vector<std::string> data_warnings(const Job& job) {
  std::vector<std::string> lines;
  if (auto line = few_negatives(job)) lines.push_back(*std::move(line));
  const Dataset& train = job.train_loader->dataset();
  if (auto line = single_class(train)) lines.push_back(*std::move(line));
  if (!job.eval_loader) return lines;
  try {
    if (auto line = overlap(train, job.eval_loader->dataset())) lines.push_back(*std::move(line));
  } catch (const Error&) {
    // An unreadable sample is an error of the step that needs it.
  }
  return lines;
}

}  // namespace accel
