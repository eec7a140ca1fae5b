#include "train/job/mixture_points.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/base/text.h"
#include "data/loader/loader.h"
#include "data/loader/mixture.h"

namespace accel {
namespace {

[[noreturn]] void refuse_mixture(const Job& job, const std::string& message,
                                 const std::string& hint) {
  throw RecipeError({{recipe_place(job.resolved, "data.train"), message, hint}});
}

/// Steps of the run, for points in percent; 0: unknown.
int64_t run_steps(const Job& job, const ScheduleContext& length) {
  int64_t total = 0;
  for (const Duration& until : job.recipe.train.until) {
    const bool counted = until.unit == Duration::Unit::kSteps ||
                         until.unit == Duration::Unit::kEpochs ||
                         until.unit == Duration::Unit::kSamples;
    if (!counted) return 0;
    const int64_t steps = length.steps(until);
    total = total == 0 ? steps : std::min(total, steps);
  }
  return total;
}

std::vector<WeightPoint> points_of(const Job& job, const MixtureWeight& weight,
                                   const ScheduleContext& length) {
  if (weight.in_percent() && length.total_steps == 0) {
    refuse_mixture(job, "'weight' has a point in percent, but the run has no known number of steps",
                   "give 'train.until' in steps, epochs or samples, or the point in steps");
  }
  std::vector<WeightPoint> points;
  const MixtureWeight::Point* before = nullptr;
  for (const MixtureWeight::Point& point : weight.points) {
    const int64_t step = length.steps(point.at);
    if (before && points.back().step >= step) {
      refuse_mixture(job,
                     text("the point '{}' of 'weight' is step {}, which is not behind that of '{}'",
                          to_string(point.at), step, to_string(before->at)),
                     "write the points in their order");
    }
    points.push_back({step, point.weight});
    before = &point;
  }
  return points;
}

/// The weights as written, with the length that percentages refer to.
std::string identity_of(const Job& job, const std::vector<MixtureWeight>& weights) {
  std::string out;
  bool percent = false;
  for (const MixtureWeight& weight : weights) {
    out += (out.empty() ? "" : ":") + detail::inline_text(Codec<MixtureWeight>::write(weight));
    percent = percent || weight.in_percent();
  }
  if (job.recipe.data.loader.mixture == MixtureCurve::kStages) out += " in stages";
  if (percent) out += " of " + detail::inline_text(Codec<Durations>::write(job.recipe.train.until));
  return out;
}

void require_weight_at_every_step(const Job& job, const MixtureSchedule& schedule) {
  for (const int64_t step : schedule.steps()) {
    const bool any = std::any_of(schedule.weights.begin(), schedule.weights.end(),
                                 [&](const std::vector<WeightPoint>& own) {
                                   return weight_at(own, step, schedule.curve) > 0;
                                 });
    if (any) continue;
    refuse_mixture(job, text("at step {} the 'weight' of every dataset is 0", step),
                   "give one of them a weight above 0 there");
  }
}

}  // namespace

std::optional<MixtureSchedule> mixture_schedule(
    const Job& job, const std::vector<std::optional<MixtureWeight>>& weights, int64_t samples) {
  std::vector<MixtureWeight> given;
  for (const auto& weight : weights) {
    if (weight) given.push_back(*weight);
  }
  const bool changes = std::any_of(given.begin(), given.end(),
                                   [](const MixtureWeight& weight) { return weight.is_schedule; });
  if (!changes || given.size() != weights.size()) return std::nullopt;  // reported by combine()
  const int64_t batch = std::max<int64_t>(job.batches.batch, 1);
  ScheduleContext length;
  length.steps_per_epoch = steps_of_epoch(samples, batch, job.recipe.data.loader.drop_last);
  length.samples_per_step = batch;
  length.total_steps = run_steps(job, length);
  MixtureSchedule schedule{.weights = {},
                           .curve = job.recipe.data.loader.mixture,
                           .batch = batch,
                           .steps_per_epoch = length.steps_per_epoch,
                           .identity = identity_of(job, given)};
  for (const MixtureWeight& weight : given) {
    schedule.weights.push_back(points_of(job, weight, length));
  }
  require_weight_at_every_step(job, schedule);
  return schedule;
}

std::string mixture_summary(const Job& job) {
  const auto* mixture = dynamic_cast<const Mixture*>(&job.train_loader->dataset());
  if (!mixture) return "";
  std::string out;
  size_t number = 0;
  for (const DatasetPart& part : job.recipe.data.train.parts) {
    const Node::Entry* path = part.component.resolved.find("path");
    out += text("{}{} {}", number == 0 ? "" : ", ", number + 1, part.component.type);
    if (path && path->node.scalar()) out += " " + path->node.scalar()->text;
    ++number;
  }
  out += "; " + mixture->proportions();
  if (!mixture->counts().empty()) return out;
  const bool in_stages = job.recipe.data.loader.mixture == MixtureCurve::kStages;
  return out + (in_stages ? ", in stages" : ", linear between them");
}

}  // namespace accel
