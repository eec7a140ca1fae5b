#include "train/job/build_completions.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/api/completion_sampler.h"
#include "core/base/text.h"
#include "data/loader/epoch_order.h"
#include "data/loader/source_sample.h"
#include "kernels/choice.h"
#include "train/metrics/text_metric.h"
#include "train/tasks/generates_targets.h"
#include "train/tasks/samples_completions.h"

namespace accel {
namespace {

[[noreturn]] void refuse_completions(const Job& job, const std::string& path,
                                     const std::string& message, std::string hint) {
  throw RecipeError({{recipe_place(job.resolved, path), message, std::move(hint)}});
}

/// Ranks sample completions of different lengths: their passes must not communicate.
void check_passes(const Job& job, const char* hint) {
  if (!data_ranks_communicate_in_passes(job)) return;
  refuse_completions(job, "accelerator.fsdp",
                     text("the task '{}' samples completions of different lengths on each rank, "
                          "but with 'fsdp.stage: 3' the ranks gather weights in every pass",
                          job.recipe.task.type),
                     hint);
}

void check_ranks(const Job& job) {
  const std::string& task = job.recipe.task.type;
  check_passes(job, "use stage 2, or a model with 'lora' and no 'fsdp'");
  if (fills_idle_ranks(job)) {
    refuse_completions(job, "data.loader.even_batches",
                       text("the task '{}' averages over the tokens of all ranks, and with 'fsdp' "
                            "and 'even_batches: false' some have samples that do not count",
                            task),
                       "set 'data.loader.even_batches' to true");
  }
}

std::shared_ptr<CompletionSampler> sampler_of(const Job& job,
                                              std::shared_ptr<TextGenerator> texts) {
  auto sampler = std::dynamic_pointer_cast<CompletionSampler>(std::move(texts));
  if (sampler && sampler->is_cached()) return sampler;
  refuse_completions(
      job, "model",
      text("the task '{}' samples completions, but the model '{}' has no cached decoder",
           job.recipe.task.type, job.recipe.model.type),
      "use gpt, llama or another language model with a key-value cache");
}

void check_lengths(const Job& job, const CompletionSampler& sampler, int64_t added,
                   const Loader& loader, const char* place) {
  const std::vector<int64_t> lengths = lengths_of(loader.dataset());
  if (lengths.empty()) return;
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const int64_t data = job.data.input[0], model = sampler.max_context();
  const bool by_model = model > 0 && model < data;
  const int64_t most = by_model ? model : data;
  if (longest + added <= most) return;
  refuse_completions(
      job, place,
      text("the longest prompt has {} tokens, which with a 'max_completion_length' of {} is more "
           "than the {} tokens of {}",
           longest, added, most, by_model ? "the model's context" : "'max_length'"),
      by_model ? "lower 'max_completion_length', or leave long prompts out by a lower 'max_length' "
                 "and 'on_bad_sample'"
               : "raise 'max_length', or lower 'max_completion_length'");
}

void check_columns(const Job& job, const std::vector<std::string>& columns, const Loader& loader,
                   const char* place) {
  const PromptRow row = prompt_row_of(loader.dataset(), 0);
  for (const std::string& column : columns) {
    if (row.columns.contains(column)) continue;
    std::vector<std::string> names;
    for (const auto& [name, value] : row.columns) names.push_back(name);
    refuse_completions(job, place,
                       text("a reward of the task '{}' reads the column '{}', which {} does not "
                            "have",
                            job.recipe.task.type, column, row.place),
                       text("it has the columns {}", quoted_list(names)));
  }
}

}  // namespace

void check_predicts_on_ranks(const Job& job) {
  if (dynamic_cast<const GeneratesTargets*>(job.task.get())) check_passes(job, "use stage 2");
}

void build_targets(Job& job, const std::function<std::unique_ptr<TextGenerator>()>& make) {
  auto* task = dynamic_cast<GeneratesTargets*>(job.task.get());
  if (!task || !task->generates_targets() || !job.eval_loader) return;
  check_passes(job, "use stage 2, or leave 'predict_with_generate' out");
  if (has_shapes_only()) return;
  const std::shared_ptr<CompletionSampler> sampler = sampler_of(job, make());
  task->set_sampler(sampler);
  for (const auto& metric : job.metrics) {
    if (auto* of_texts = dynamic_cast<TextMetric*>(metric.get())) {
      of_texts->set_decode(
          [sampler](std::span<const int64_t> tokens) { return sampler->text_of(tokens); });
    }
  }
}

void build_completions(Job& job, const std::function<std::unique_ptr<TextGenerator>()>& make) {
  auto* task = dynamic_cast<SamplesCompletions*>(job.task.get());
  if (!task) return;
  check_ranks(job);
  if (has_shapes_only()) return;
  CompletionSource source;
  source.sampler = sampler_of(job, make());
  source.seed = static_cast<uint64_t>(job.recipe.seed);
  if (task->needs_end_token() && !source.sampler->has_end_token()) {
    refuse_completions(
        job, "task.mask_truncated_completions",
        "'mask_truncated_completions' leaves out all completions: the tokenizer has "
        "no end token",
        "leave it out, or name an end token in the tokenizer's tokenizer_config.json");
  }
  const std::pair<Loader*, const char*> loaders[] = {{job.train_loader.get(), "data.train"},
                                                     {job.eval_loader.get(), "data.eval"}};
  for (const auto& [loader, place] : loaders) {
    if (!loader) continue;
    check_lengths(job, *source.sampler, task->max_completion_length(), *loader, place);
    check_columns(job, task->columns(), *loader, place);
  }
  const Loader *const train = job.train_loader.get(), *const eval = job.eval_loader.get();
  source.train_row = [train](int64_t id) { return prompt_row_of(train->dataset(), id); };
  source.eval_row = [eval](int64_t id) { return prompt_row_of(eval->dataset(), id); };
  task->set_source(std::move(source));
}

}  // namespace accel
