// LLaMA-Factory's YAML.
#include "runner/importers/import_recipe.h"
#include "runner/importers/shared_readings.h"
#include "runner/importers/trainer_keys.h"

namespace accel {
namespace {

using Use = ForeignKey::Use;
namespace reasons = import_reasons;

constexpr auto kRegistered =
    "it names an entry of dataset_info.json: write its file in 'data.train'";

constexpr ForeignKey kLlamaFactoryKeys[] = {
    {"model_name_or_path", Use::kRead},
    {"adapter_name_or_path", Use::kNot, reasons::kAdapters},
    {"cache_dir", Use::kIdle},
    {"trust_remote_code", Use::kNot, "no code of a model's folder is run", "false true"},
    {"use_fast_tokenizer", Use::kIdle},
    {"hf_hub_token", Use::kIdle},
    {"resize_vocab", Use::kNot, "sizes are the folder's", "false"},
    {"flash_attn", Use::kIdle},
    {"shift_attn", Use::kNot, "attention sees the whole context", "false"},
    {"rope_scaling", Use::kNot, "write 'model.rope' for it"},
    {"use_unsloth", Use::kNot, reasons::kKernels, "false"},
    {"enable_liger_kernel", Use::kNot, reasons::kKernels, "false"},
    {"quantization_bit", Use::kNot, reasons::kQuantized},
    {"quantization_method", Use::kNot, reasons::kQuantized},
    {"double_quantization", Use::kIdle},
    {"upcast_layernorm", Use::kIdle},
    {"disable_gradient_checkpointing", Use::kIdle},
    {"image_max_pixels", Use::kNot, "texts have no images"},
    {"video_max_pixels", Use::kNot, "texts have no images"},
    {"stage", Use::kRead},
    {"finetuning_type", Use::kRead},
    {"lora_rank", Use::kNot, reasons::kAdapters},
    {"lora_alpha", Use::kNot, reasons::kAdapters},
    {"lora_dropout", Use::kNot, reasons::kAdapters},
    {"lora_target", Use::kNot, reasons::kAdapters},
    {"loraplus_lr_ratio", Use::kNot, reasons::kAdapters},
    {"use_dora", Use::kNot, reasons::kAdapters, "false"},
    {"use_rslora", Use::kNot, reasons::kAdapters, "false"},
    {"additional_target", Use::kNot, reasons::kAdapters},
    {"freeze_trainable_layers", Use::kNot, "all weights are trained"},
    {"freeze_vision_tower", Use::kIdle},
    {"freeze_multi_modal_projector", Use::kIdle},
    {"pref_beta", Use::kNot, reasons::kPreference},
    {"pref_loss", Use::kNot, reasons::kPreference},
    {"pref_ftx", Use::kNot, reasons::kPreference},
    {"reward_model", Use::kNot, reasons::kPreference},
    {"use_galore", Use::kNot, "there is no GaLore", "false"},
    {"use_badam", Use::kNot, "there is no BAdam", "false"},
    {"pure_bf16", Use::kNot, "weights are kept in 32 bits", "false"},
    {"compute_accuracy", Use::kRead, "", "false"},
    {"plot_loss", Use::kIdle},
    {"dataset", Use::kRead},
    {"eval_dataset", Use::kNot, kRegistered},
    {"dataset_dir", Use::kIdle},
    {"template", Use::kNot, reasons::kConversations},
    {"default_system", Use::kNot, reasons::kConversations},
    {"train_on_prompt", Use::kNot, reasons::kConversations, "false"},
    {"mask_history", Use::kNot, reasons::kConversations, "false"},
    {"enable_thinking", Use::kNot, reasons::kConversations, "false true"},
    {"cutoff_len", Use::kRead},
    {"max_samples", Use::kRead},
    {"val_size", Use::kRead, "", "0"},
    {"streaming", Use::kNot, "data is read from files, not streamed", "false"},
    {"mix_strategy", Use::kNot, "a list in 'data.train' has weights", "concat"},
    {"interleave_probs", Use::kNot, "a list in 'data.train' has weights"},
    {"packing", Use::kRead, "", "false true"},
    {"neat_packing", Use::kNot, "packed texts see one another", "false"},
    {"overwrite_cache", Use::kIdle},
    {"preprocessing_num_workers", Use::kIdle},
    {"preprocessing_batch_size", Use::kIdle},
    {"tokenized_path", Use::kNot, "tokens are kept in 'cache' of a dataset"},
    {"ignore_pad_token_for_loss", Use::kIdle},
    {"use_swanlab", Use::kNot, "write a tracker of type swanlab", "false"},
    {"swanlab_project", Use::kIdle},
    {"swanlab_run_name", Use::kIdle},
    {"ray_num_workers", Use::kNot, reasons::kPython},
    {"predict_with_generate", Use::kNot, "evaluation generates no texts", "false"},
    {"generation_max_length", Use::kIdle},
};

bool is_llama_factory(const Node& tree) {
  return tree.find("model_name_or_path") && (tree.find("stage") || tree.find("finetuning_type"));
}

void read_stage(ForeignConfig& config) {
  const std::string stage = config.text("stage").value_or("sft");
  if (stage == "pt" || stage == "sft") {
    config.take("stage");
  } else {
    config.leave("stage", import_reasons::kPreference);
  }
  const std::string type = config.text("finetuning_type").value_or("lora");
  if (type == "full") {
    config.take("finetuning_type");
  } else {
    config.leave("finetuning_type", import_reasons::kAdapters);
  }
}

void read_llama_factory_data(ForeignConfig& config) {
  const std::string dataset = config.text("dataset").value_or("");
  if (!is_text_file(dataset) || config.text("stage") != "pt") {
    config.leave("dataset",
                 dataset.empty() ? "no data is named: the recipe has none" : kRegistered);
    return;
  }
  TextFile file{dataset, "text", config.text("cutoff_len").value_or("2048"), 0};
  const double held = config.number("val_size").value_or(0);
  if (held > 0 && held < 1) file.held_out = held;
  if (held >= 1) config.leave("val_size", "it counts samples: write a share of the file");
  set_text_data(config, file, "dataset");
  if (file.held_out > 0) config.take("val_size");
  config.take("cutoff_len");
  config.take("packing");
  if (const auto limit = config.text("max_samples")) {
    config.leave("max_samples", "samples are windows of texts here: write 'limit' for so many");
  }
}

void read_llama_factory(const Node& tree, Imported& out) {
  ForeignConfig config(tree, out);
  read_model_folder(config, "model_name_or_path");
  read_stage(config);
  read_llama_factory_data(config);
  read_trainer_words(config, {});
  read_trainer_rest(config);
  if (config.truth("compute_accuracy")) {
    config.set("eval.metrics", {Node::List{scalar_node("accuracy")}, {}}, "compute_accuracy");
  }
  std::vector<ForeignKey> keys(std::begin(kLlamaFactoryKeys), std::end(kLlamaFactoryKeys));
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.settle(keys);
}

}  // namespace

const ImportPeer kLlamaFactory = {"llama-factory", "a LLaMA-Factory config", &is_llama_factory,
                                  &read_llama_factory};

}  // namespace accel
