// What several peers say in the same way: Hugging Face's words for optimizers, schedules and
// rhythms, which axolotl and LLaMA-Factory pass on to its Trainer.
#pragma once

#include <string>

#include "runner/importers/foreign_config.h"

namespace accel {

/// Words of Trainer's that configs share; empty: the peer has no such key.
struct TrainerWords {
  const char* optimizer = "optim";
  const char* schedule = "lr_scheduler_type";
  const char* batch = "per_device_train_batch_size";
  const char* eval_batch = "per_device_eval_batch_size";
  const char* epochs = "num_train_epochs";
  const char* precision_bf16 = "bf16";
  const char* precision_fp16 = "fp16";
};

/// Reads all that follows, as Trainer means it.
void read_trainer_words(ForeignConfig& config, const TrainerWords& words);

/// Where the model is. A folder stays a folder; a name of the hub becomes `vars.model`, for the
/// folder that it is downloaded to.
void read_model_folder(ForeignConfig& config, const std::string& key);

/// A file of texts, cut into windows of `context` tokens of the model's tokenizer.
struct TextFile {
  std::string path;
  std::string field = "text";
  std::string context = "2048";
  double held_out = 0;  ///< share of the file that is evaluated on instead
};
void set_text_data(ForeignConfig& config, const TextFile& file, const std::string& key);

/// Whether a path is a file that `type: text` reads.
bool is_text_file(const std::string& path);

/// The name of a run that a text can be: other characters become '-'.
std::string run_name_of(std::string text);

namespace import_reasons {
constexpr auto kAdapters = "accel-run trains all weights: there are no adapters yet";
constexpr auto kQuantized = "weights are trained as they are, not quantized";
constexpr auto kConversations =
    "conversations are not made into texts yet: write JSON Lines with a field 'text' first";
constexpr auto kRecompute = "activations are kept, not computed again";
constexpr auto kCompile = "there is no compiler for models";
constexpr auto kSharding = "ranks hold whole models: nothing is split among them";
constexpr auto kKernels = "the kernels are PyTorch's own";
constexpr auto kHub = "nothing is uploaded";
constexpr auto kPython = "it configures Python";
constexpr auto kOutput = "a run is kept in runs/NAME";
constexpr auto kPreference = "preferences and rewards are not trained on";
}  // namespace import_reasons

}  // namespace accel
