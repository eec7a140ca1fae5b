#include "train/job/open_datasets.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/api/fitted_values.h"
#include "core/base/activity.h"
#include "core/base/text.h"
#include "data/loader/mixture.h"
#include "data/loader/row_choice.h"
#include "data/loader/selected_samples.h"
#include "train/job/mixture_points.h"

namespace accel {
namespace {

/// An entry of a recipe's list of datasets.
struct OpenedSource {
  std::string type;
  std::shared_ptr<Dataset> dataset;
  std::optional<std::vector<int64_t>> rows;  ///< selected samples; none: all
  std::optional<MixtureWeight> weight;

  int64_t size() const { return rows ? static_cast<int64_t>(rows->size()) : dataset->size(); }
};

OpenedSource open_source(const DatasetPart& part, const DatasetContext& context) {
  OpenedSource source{.type = part.component.type,
                      .dataset = build(part.component, context),
                      .rows = {},
                      .weight = part.extra.weight};
  const Dataset& dataset = *source.dataset;
  if (part.extra.head && *part.extra.head < dataset.size()) {
    source.rows.emplace(static_cast<size_t>(*part.extra.head));
    std::iota(source.rows->begin(), source.rows->end(), int64_t{0});
  }
  if (part.extra.limit && *part.extra.limit < dataset.size()) {
    source.rows = spread_rows(dataset, all_rows(dataset), *part.extra.limit, context.seed);
  }
  return source;
}

std::vector<OpenedSource> open_sources(const DatasetParts& parts, const DatasetContext& context) {
  std::vector<OpenedSource> sources;
  for (const DatasetPart& part : parts.parts) sources.push_back(open_source(part, context));
  return sources;
}

/// Fits the source's values to its samples, or takes those of the first source with values.
void fit(const OpenedSource& source, const std::string& prefix, std::string& values,
         std::vector<std::string>& notes) {
  auto* fitted = dynamic_cast<FittedValues*>(source.dataset.get());
  if (!fitted) return;
  if (!values.empty()) {
    fitted->use_fitted(values);
  } else {
    if (source.rows) fitted->fit(*source.rows);
    values = fitted->fitted();
  }
  for (const std::string& note : fitted->fitted_notes()) notes.push_back(prefix + note);
}

std::vector<DataPart> parts_of_sources(std::vector<OpenedSource> sources, bool weighted) {
  std::vector<DataPart> parts;
  for (OpenedSource& source : sources) {
    std::shared_ptr<const Dataset> dataset = std::move(source.dataset);
    if (source.rows) dataset = select_samples(std::move(dataset), std::move(*source.rows));
    std::optional<double> weight;
    if (weighted && source.weight) weight = source.weight->constant();
    parts.push_back({std::move(dataset), weight});
  }
  return parts;
}

std::shared_ptr<const Dataset> combined(std::vector<OpenedSource> sources, bool weighted) {
  return combine(parts_of_sources(std::move(sources), weighted));
}

std::shared_ptr<const Dataset> combined_for_training(const Job& job,
                                                     std::vector<OpenedSource> sources) {
  std::vector<std::optional<MixtureWeight>> weights;
  int64_t samples = 0;
  for (const OpenedSource& source : sources) {
    weights.push_back(source.weight);
    samples += source.size();
  }
  const std::optional<MixtureSchedule> schedule = mixture_schedule(job, weights, samples);
  if (!schedule) return combined(std::move(sources), /*weighted=*/true);
  return combine(parts_of_sources(std::move(sources), /*weighted=*/true), *schedule);
}

/// Held-out samples of each source.
class HeldOut {
 public:
  HeldOut(const Job& job, const std::vector<OpenedSource>& sources)
      : section_(job.recipe.data.split),
        place_(recipe_place(job.resolved,
                            section_.group.empty() ? "data.split.stratify" : "data.split.group")) {
    std::vector<int64_t> sizes;
    for (const OpenedSource& source : sources) sizes.push_back(source.size());
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (section_.eval->samples >= all) {
      throw RecipeError({{recipe_place(job.resolved, "data.split.eval"),
                          text("'split' holds out {} of {} samples, which leaves none to train on",
                               section_.eval->samples, all),
                          "lower 'eval' of 'split'"}});
    }
    if (section_.eval->samples > 0) counts_ = proportional(section_.eval->samples, sizes);
  }

  /// Leaves the training samples in the source and returns the others.
  std::optional<OpenedSource> take(OpenedSource& source) {
    const size_t number = number_++;
    RowSplitOptions options{.share = section_.eval->percent / 100,
                            .seed = static_cast<uint64_t>(section_.seed),
                            .stratify = section_.stratify.value,
                            .group = section_.group,
                            .dataset = source.type};
    if (!counts_.empty()) options.samples = counts_[number];
    if (!counts_.empty() && options.samples == 0) return std::nullopt;
    RowSplit split = at_place(place_, [&] {
      return split_rows(*source.dataset, source.rows ? *source.rows : all_rows(*source.dataset),
                        options);
    });
    unused_ += split.unused;
    if (std::find(methods_.begin(), methods_.end(), split.method) == methods_.end()) {
      methods_.push_back(split.method);
    }
    OpenedSource eval = source;
    eval.rows = std::move(split.eval);
    source.rows = std::move(split.train);
    return eval;
  }

  /// "10 % (stratified by class, seed 0)"
  std::string describe() const {
    const std::string unused = unused_ > 0 ? text(", {} overlapping unused", unused_) : "";
    return to_string(*section_.eval) + " (" + joined(methods_) + unused + ")";
  }

 private:
  const SplitSection& section_;
  Span place_;
  std::vector<int64_t> counts_;  // per source; empty for a share
  size_t number_ = 0;
  int64_t unused_ = 0;
  std::vector<std::string> methods_;
};

DatasetContext context_of(const Job& job, bool train) {
  return {.seed = static_cast<uint64_t>(job.recipe.seed), .train = train};
}

}  // namespace

OpenedData open_training_data(const Job& job) {
  const Activity shown("opening the training data");
  std::vector<OpenedSource> sources = open_sources(job.recipe.data.train, context_of(job, true));
  std::vector<OpenedSource> eval;
  OpenedData out;
  if (job.recipe.data.split.eval) {
    HeldOut held_out(job, sources);
    for (OpenedSource& source : sources) {
      if (auto taken = held_out.take(source)) eval.push_back(std::move(*taken));
    }
    out.held_out = held_out.describe();
  }
  out.fitted = job.fitted_values;
  for (const OpenedSource& source : sources) fit(source, "", out.fitted, out.notes);
  out.train = combined_for_training(job, std::move(sources));
  if (!eval.empty()) out.eval = combined(std::move(eval), /*weighted=*/false);
  return out;
}

std::shared_ptr<const Dataset> open_separate_data(Job& job) {
  const Activity shown("opening the eval data");
  std::vector<OpenedSource> sources = open_sources(job.recipe.data.eval, context_of(job, false));
  std::string values = job.fitted_values;
  for (const OpenedSource& source : sources) fit(source, "eval: ", values, job.fill_notes);
  return combined(std::move(sources), /*weighted=*/true);
}

}  // namespace accel
