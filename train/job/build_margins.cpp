#include "train/job/build_margins.h"

#include <cmath>
#include <optional>

#include "core/api/pair_margins.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "data/loader/source_sample.h"
#include "kernels/choice.h"
#include "train/tasks/uses_pair_margins.h"

namespace accel {
namespace {

std::optional<double> pair_margin_of(const Dataset& dataset, int64_t index) {
  const SourceSample sample = source_sample(dataset, index);
  const auto* margins = dynamic_cast<const PairMargins*>(sample.dataset);
  return margins ? margins->pair_margin(sample.index) : std::nullopt;
}

/// Null for data without margins.
PairMarginOf margins_in(const Job& job, const Loader* loader, const char* place) {
  if (!loader) return nullptr;
  const Dataset* const dataset = &loader->dataset();
  int64_t given = 0, numbers = 0;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const std::optional<double> margin = pair_margin_of(*dataset, i);
    given += margin.has_value();
    numbers += margin && std::isfinite(*margin);
  }
  if (given == 0) return nullptr;
  if (numbers < dataset->size()) {
    throw RecipeError(
        {{recipe_place(job.resolved, place),
          text("{} of {} pairs have no number in the field 'margin', which the task '{}' subtracts "
               "from the difference of their rewards",
               dataset->size() - numbers, dataset->size(), job.recipe.task.type),
          "give each pair a number, or rename the field: without it all margins are 0"}});
  }
  say(text("{}: the task '{}' uses the field 'margin' of the pairs", place, job.recipe.task.type));
  return [dataset](int64_t id) { return pair_margin_of(*dataset, id).value_or(0); };
}

}  // namespace

void build_margins(Job& job) {
  auto* task = dynamic_cast<UsesPairMargins*>(job.task.get());
  if (!task || has_shapes_only()) return;
  task->set_margins(margins_in(job, job.train_loader.get(), "data.train"),
                    margins_in(job, job.eval_loader.get(), "data.eval"));
}

}  // namespace accel
