#include "train/job/model_fit.h"

#include <algorithm>
#include <array>

#include "core/api/packed_sequences.h"
#include "core/api/plugin_identity.h"
#include "core/api/target_sequences.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/input_spec.h"
#include "models/layers/module_state.h"
#include "models/layers/packed_pairs.h"
#include "models/layers/packed_texts.h"
#include "models/lora/lora.h"
#include "models/lora/lora_folder.h"
#include "train/tasks/generates_targets.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/reference_model.h"

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
    TaskDemand{"question_answering", TextOutput::kSpan},
    TaskDemand{"classification", TextOutput::kWhole},
    TaskDemand{"regression", TextOutput::kWhole},
    TaskDemand{"multi_label_classification", TextOutput::kWhole},
    TaskDemand{"distill", TextOutput::kWhole},
    TaskDemand{"dpo", TextOutput::kNextToken},
    TaskDemand{"orpo", TextOutput::kNextToken},
    TaskDemand{"simpo", TextOutput::kNextToken},
    TaskDemand{"kto", TextOutput::kNextToken},
    TaskDemand{"grpo", TextOutput::kNextToken},
    TaskDemand{"reward", TextOutput::kWhole},
    TaskDemand{"seq2seq", TextOutput::kTargetSequence},
};

const char* prediction_text(TextOutput output) {
  switch (output) {
    case TextOutput::kNextToken:
      return "predicts the next token";
    case TextOutput::kHiddenToken:
      return "predicts masked tokens";
    case TextOutput::kLabels:
      return "labels each token";
    case TextOutput::kSpan:
      return "predicts a span of tokens";
    case TextOutput::kWhole:
      return "predicts one output per text";
    case TextOutput::kTargetSequence:
      return "predicts a target text";
    case TextOutput::kUnknown:
      break;
  }
  return "has another output";
}

[[noreturn]] void refuse_at(const Job& job, const std::string& path, const std::string& message,
                            std::string hint) {
  throw RecipeError({{recipe_place(job.resolved, path), message, std::move(hint)}});
}

/// Whether a training dataset has next tokens as targets; `npy` files and plugins may have masked
/// ones.
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
    refuse_at(
        job, "data.transform",
        "the transform 'mask_tokens' is for the task 'masked_lm', but the task is 'causal_lm'",
        "leave it out, or change the task");
  }
  const auto is_foreign = [](const Ref<Transform>& ref) { return is_vendor_name(ref.type); };
  const bool others = std::any_of(transforms.begin(), transforms.end(), is_foreign);
  if (task == "masked_lm" && !hides && !others && gives_next_tokens(job.recipe)) {
    refuse_at(job, "data", "the task 'masked_lm' has no targets: no token is masked",
              "add 'transform: [mask_tokens]'");
  }
}

/// Tasks on whole sequences do not divide layers, experts or sequences over ranks.
void check_whole_sequences(const Job& job) {
  const auto* task = dynamic_cast<const WholeSequences*>(job.task.get());
  if (!task) return;
  const int64_t tensor = task->needs_whole_logits() ? job.mesh.tensor->world() : 1;
  const std::pair<const char*, int64_t> axes[] = {
      {"tp", tensor}, {"ep", job.mesh.expert->world()}, {"pp", job.mesh.pipeline->world()}};
  for (const auto& [option, world] : axes) {
    if (world == 1) continue;
    refuse_at(
        job, text("accelerator.parallelism.{}", option),
        text("'{}' does not support the task '{}', which needs whole logits of whole sequences",
             option, job.recipe.task.type),
        text("divide the weights with 'fsdp', or leave '{}' out", option));
  }
}

/// Noise on embeddings is drawn for whole sequences, where ranks have all of them.
void check_embedding_noise(const Job& job) {
  const auto* task = dynamic_cast<const AddsEmbeddingNoise*>(job.task.get());
  if (!task || !task->adds_embedding_noise()) return;
  const ParallelismSection& axes = job.recipe.accelerator.parallelism;
  const std::pair<const char*, int64_t> sizes[] = {
      {"tp", axes.tp}, {"cp", axes.cp}, {"sp", axes.sp}, {"pp", axes.pp}};
  for (const auto& [option, size] : sizes) {
    if (size == 1) continue;
    refuse_at(job, text("accelerator.parallelism.{}", option),
              text("'{}' does not support 'neftune_noise_alpha' of the task '{}'", option,
                   job.recipe.task.type),
              text("leave one of them out, or divide the weights with 'fsdp'"));
  }
}

void check_compared_samples(const Job& job) {
  const auto* task = dynamic_cast<const ComparesSamples*>(job.task.get());
  if (!task || !task->compares_samples() || job.batches.micro_batch != 1) return;
  refuse_at(job, "train",
            text("the task '{}' compares the samples of a micro-batch, which has only one",
                 job.recipe.task.type),
            "set 'train.micro_batch' to 2 or more");
}

/// The reference of an adapter is the model without it: then nothing else may be trained.
void check_adapter_reference(const Job& job) {
  const auto* task = dynamic_cast<const AdapterReference*>(job.task.get());
  if (!task || !task->uses_adapter_reference()) return;
  const auto refuse = [&](const std::string& reason) {
    refuse_at(job, "task",
              text("the task '{}' needs a 'reference': {}", job.recipe.task.type, reason),
              "copy the section 'model' into it, or name another model");
  };
  const std::vector<Parameter> parameters = parameters_of(*job.model);
  const auto in_adapter = [](const Parameter& item) { return is_of_adapter(item.name); };
  if (!has_adapter_switch(*job.model)) {
    refuse("the model has no LoRA adapter that could be switched off");
  }
  const Node::Entry* const lora = job.recipe.model.resolved.find("lora");
  const Node::Entry* const folder = lora ? lora->node.find("adapter") : nullptr;
  if (folder && folder->node.scalar() && !folder->node.scalar()->text.empty()) {
    refuse("'lora.adapter' continues an adapter, and without it the model is another one");
  }
  const Node::Entry* const init = lora ? lora->node.find("init") : nullptr;
  const std::string drawn = init && init->node.scalar() ? init->node.scalar()->text : "";
  if (drawn == "pissa" || drawn == "olora") {
    refuse(text("'init: {}' moves a part of the weights into the adapter", drawn));
  }
  for (const Parameter& item : parameters) {
    if (item.local.requires_grad() && !in_adapter(item)) {
      refuse(text("'{}' is trained besides the adapter", item.name));
    }
  }
}

/// Scores of mismatched answers are of the micro-batches of the whole run.
void check_precomputed_reference(const Job& job) {
  const auto* task = dynamic_cast<const PrecomputesReference*>(job.task.get());
  if (!task || !task->precomputes_reference() || !task->mismatches_answers()) return;
  const auto refuse = [&](const std::string& message, std::string hint) {
    refuse_at(job, "task.precompute_ref_log_probs", message, std::move(hint));
  };
  const TrainSection& train = job.recipe.train;
  if (job.length.total_steps == 0) {
    refuse(
        "'precompute_ref_log_probs' of the loss 'kto' scores the answers of each micro-batch of "
        "the run, which has no known number of steps",
        "give 'train.until' in steps or epochs, or use 'loss_type: apo_zero_unpaired'");
  }
  if (!train.micro_batch && !train.gradient_accumulation_steps) {
    refuse(
        "'precompute_ref_log_probs' of the loss 'kto' scores the answers of each micro-batch, "
        "which an automatic 'micro_batch' may change",
        "set 'train.micro_batch', or use 'loss_type: apo_zero_unpaired'");
  }
}

/// Encoder-decoders pack pairs, encoders texts with an output for each token, and decoders texts of
/// which they predict the next tokens.
void check_packed(const Job& job) {
  if (!is_packed(job.data)) return;
  const TextOutput output = text_output(*job.model);
  const bool encodes = output == TextOutput::kHiddenToken || output == TextOutput::kLabels;
  const Model* const model = job.model.get();
  const bool packs = has_target_sequences(job.data)
                         ? dynamic_cast<const PacksPairs*>(model) != nullptr
                     : encodes ? dynamic_cast<const PacksTexts*>(model) != nullptr
                               : dynamic_cast<const PackedSequences*>(model) != nullptr;
  if (packs) return;
  refuse_at(job, "data",
            text("the model '{}' does not support packed sequences", job.recipe.model.type),
            encodes ? "leave out 'pack', or use an encoder such as 'bert' or 'modernbert'"
                    : "leave out 'pack', or use a model such as 'gpt' or 'llama'");
}

}  // namespace

void check_task_fits(const Job& job) {
  check_whole_sequences(job);
  check_embedding_noise(job);
  check_compared_samples(job);
  check_adapter_reference(job);
  check_precomputed_reference(job);
  const std::string& task = job.recipe.task.type;
  const auto demand = std::find_if(kTaskDemands.begin(), kTaskDemands.end(),
                                   [&](const TaskDemand& item) { return item.task == task; });
  const TextOutput given = text_output(*job.model);
  if (demand != kTaskDemands.end() && given != TextOutput::kUnknown && given != demand->output) {
    refuse_at(job, "task",
              text("the task '{}' needs a model that {}, but the model '{}' {}", task,
                   prediction_text(demand->output), job.recipe.model.type, prediction_text(given)),
              text("with these options its task is '{}'", job.model->default_task()));
  }
  check_packed(job);
  check_hidden_tokens(job);
}

void check_eval_data_fits(const Job& job) {
  if (!job.eval_loader) return;
  at_place(recipe_place(job.resolved, "data.eval"), [&] {
    const DataShape shape = job.eval_loader->shape();
    if (is_packed(shape) && !is_packed(job.data)) {
      throw Error(ExitCode::kRecipe, "the eval data is packed, the training data is not",
                  "add 'pack' to the training data, or leave it out of the eval data");
    }
    const auto* generates = dynamic_cast<const GeneratesTargets*>(job.task.get());
    if (is_packed(shape) && generates && generates->generates_targets()) {
      throw Error(ExitCode::kRecipe,
                  "'predict_with_generate' generates a target for each sample, but the eval data "
                  "is packed",
                  "leave 'pack' out of the eval data");
    }
    validate_input(*job.model, shape);
    for (const TaskModel& item : job.task_models) validate_input(*item.model, shape);
    return 0;
  });
}

}  // namespace accel
