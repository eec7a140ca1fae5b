#include "runner/job/model_fit.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/packed_texts.h"
#include "models/fitted_model.h"
#include "runner/plugin/manifest.h"

namespace accel {
namespace {

struct TaskDemand {
  const char* task;
  TextOutput output;
};

constexpr std::array kTaskDemands = {
    TaskDemand{"causal_lm", TextOutput::kNextToken},
    TaskDemand{"masked_lm", TextOutput::kHiddenToken},
    TaskDemand{"token_classification", TextOutput::kLabels},
    TaskDemand{"classification", TextOutput::kWhole},
    TaskDemand{"regression", TextOutput::kWhole},
    TaskDemand{"distill", TextOutput::kWhole},
};

const char* words_for(TextOutput output) {
  switch (output) {
    case TextOutput::kNextToken:
      return "tells the next token from those before it";
    case TextOutput::kHiddenToken:
      return "tells hidden tokens from both sides";
    case TextOutput::kLabels:
      return "labels each token";
    case TextOutput::kWhole:
      return "tells something of a text as a whole";
    case TextOutput::kUnknown:
      break;
  }
  return "tells something else";
}

[[noreturn]] void refuse_at(const Job& job, const std::string& path, const std::string& message,
                            std::string hint) {
  throw RecipeError({{recipe_place(job.resolved, path), message, std::move(hint)}});
}

/// Whether the targets of some training data are the tokens that follow; those of others may be
/// hidden ones, as the numbers of `npy` or what a plugin makes.
bool gives_next_tokens(const RecipeOptions& recipe) {
  constexpr std::array kTypes = {"arrow",   "chat", "csv",    "hf",  "jsonl",     "mds",
                                 "parquet", "text", "tokens", "tsv", "webdataset"};
  const auto& parts = recipe.data.train.parts;
  return std::any_of(parts.begin(), parts.end(), [&](const DatasetPart& part) {
    return std::find(kTypes.begin(), kTypes.end(), part.component.type) != kTypes.end();
  });
}

void check_hidden_tokens(const Job& job) {
  const auto& transforms = job.recipe.data.transform;
  const bool hides =
      std::any_of(transforms.begin(), transforms.end(),
                  [](const Ref<Transform>& ref) { return ref.type == "mask_tokens"; });
  const std::string& task = job.recipe.task.type;
  if (task == "causal_lm" && hides) {
    refuse_at(job, "data.transform",
              "the transform 'mask_tokens' hides tokens for the task 'masked_lm', but the task is "
              "'causal_lm'",
              "leave it out, or name the task that fits");
  }
  const auto is_foreign = [](const Ref<Transform>& ref) { return is_vendor_name(ref.type); };
  const bool others = std::any_of(transforms.begin(), transforms.end(), is_foreign);
  if (task == "masked_lm" && !hides && !others && gives_next_tokens(job.recipe)) {
    refuse_at(job, "data", "the task 'masked_lm' has nothing to guess: no token is hidden",
              "add 'transform: [mask_tokens]'");
  }
}

}  // namespace

void check_task_fits(const Job& job) {
  const std::string& task = job.recipe.task.type;
  const auto demand = std::find_if(kTaskDemands.begin(), kTaskDemands.end(),
                                   [&](const TaskDemand& item) { return item.task == task; });
  const TextOutput given = text_output(*job.model);
  if (demand != kTaskDemands.end() && given != TextOutput::kUnknown && given != demand->output) {
    refuse_at(job, "task",
              "the task '" + task + "' wants a model that " + words_for(demand->output) +
                  ", but the model '" + job.recipe.model.type + "' " + words_for(given),
              std::string("as it is built here, its task is '") + job.model->default_task() + "'");
  }
  if (is_packed(job.data) && !dynamic_cast<const KeepsTextsApart*>(job.model.get())) {
    refuse_at(job, "data",
              "the model '" + job.recipe.model.type + "' cannot keep packed texts apart",
              "leave out 'pack', or take a model such as 'gpt' or 'llama'");
  }
  check_hidden_tokens(job);
}

void check_eval_data_fits(const Job& job) {
  if (!job.eval_loader) return;
  at_place(recipe_place(job.resolved, "data.eval"), [&] {
    const DataShape shape = job.eval_loader->shape();
    if (is_packed(shape) && !is_packed(job.data)) {
      throw Error(ExitCode::kRecipe, "the eval data is of packed texts, the training data is not",
                  "add 'pack' to the training data, or leave it out of the eval data");
    }
    check_samples(*job.model, shape);
    for (const TaskModel& item : job.task_models) check_samples(*item.model, shape);
    return 0;
  });
}

}  // namespace accel
