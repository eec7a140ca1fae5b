// Errors of `compat` together with other sections.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "train/recipe/recipe.h"

namespace accel {
namespace {

bool by_time(const Durations& every) {
  return std::any_of(every.begin(), every.end(), [](const Duration& duration) {
    return duration.unit == Duration::Unit::kSeconds;
  });
}

void check_sampler(const RecipeOptions& recipe, const Span& where, Reading& reading) {
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    reading.problems.error(where, "'use_seedable_sampler' false " + message, hint);
  };
  const LoaderSection& loader = recipe.data.loader;
  const std::vector<DatasetPart>& parts = recipe.data.train.parts;
  if (recipe.compat.dataloader_generator == DataloaderGenerator::kOwn) {
    refuse("draws the seed of each epoch's order from the shared generator",
           "add 'dataloader_generator: shared', or leave it out");
  } else if (!loader.shuffle) {
    refuse("has no effect: 'data.loader.shuffle' is false", "leave one of the two out");
  } else if (loader.shuffle_block_size) {
    refuse("is the order of RandomSampler, not that of 'shuffle_block_size'",
           "leave one of the two out");
  } else if (loader.group_by_length) {
    refuse("is the order of RandomSampler, not that of 'group_by_length'",
           "leave one of the two out");
  } else if (loader.curriculum.until) {
    refuse("is the order of RandomSampler, not that of 'curriculum'", "leave one of the two out");
  } else if (std::any_of(parts.begin(), parts.end(),
                         [](const DatasetPart& part) { return part.extra.weight.has_value(); })) {
    refuse("is the order of RandomSampler, not that of 'weight' in 'data.train'",
           "leave one of the two out");
  }
}

}  // namespace

void check_compat(const RecipeOptions& recipe, const Node& node, Reading& reading) {
  const auto place = [&](const char* section, const char* key) {
    const Node::Entry* entry = node.find(section);
    const Node::Entry* option = entry ? entry->node.find(key) : nullptr;
    return option ? option->node.where : entry ? entry->node.where : node.where;
  };
  const CompatSection& compat = recipe.compat;
  if (!compat.use_seedable_sampler) {
    check_sampler(recipe, place("compat", "use_seedable_sampler"), reading);
  }
  if (compat.dataloader_generator == DataloaderGenerator::kOwn) return;
  const int64_t processes = recipe.accelerator.num_processes.value_or(1);
  if (processes > 1) {
    reading.problems.error(
        place("compat", "dataloader_generator"),
        text("'dataloader_generator' shared requires one process, but 'accelerator.num_processes' "
             "is {}",
             processes),
        "leave one of the two out");
  }
  if (recipe.accelerator.reduction == Reduction::kCanonical) {
    reading.problems.error(
        place("compat", "dataloader_generator"),
        "'dataloader_generator' shared has no effect on dropout with 'accelerator.reduction' "
        "canonical, which seeds it by micro-batch",
        "leave one of the two out");
  }
  if (has_eval_data(recipe) && by_time(recipe.eval.every)) {
    reading.problems.error(
        place("eval", "every"),
        "'every' is a time, but with 'compat.dataloader_generator' shared evaluations change the "
        "training after them, which would depend on the clock",
        "give steps or epochs");
  }
}

}  // namespace accel
