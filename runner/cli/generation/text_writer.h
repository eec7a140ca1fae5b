// A language model with its tokenizer and generation config, of a run, a checkpoint or a folder.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "infer/generation_config.h"
#include "infer/model_texts.h"
#include "infer/trained_model.h"
#include "infer/weight_types.h"

namespace accel {

struct TextWriter {
  std::shared_ptr<const Registry> registry = {};  ///< of a checkpoint's plugins
  std::unique_ptr<Model> model;
  std::unique_ptr<ModelTexts> texts;
  GenerationConfig config;
  std::string config_file;    ///< of the config; empty: none
  std::string tokenizer;      ///< its path; empty: characters or bytes
  std::string chat_template;  ///< a file that the recipe names; empty: the tokenizer's
};

/// Samples from all tokens: the config of a run.
GenerationConfig config_of_runs();

struct TextWriterOptions {
  std::string tokenizer = {};  ///< instead of that of the source; empty: none
  WeightTypes types = {};
  bool defers = false;  ///< weights of a folder that cannot be mapped get no memory yet
};

/// The config of a Hugging Face folder is that of its generation_config.json and, without one,
/// transformers' defaults; that of a run samples from all tokens. Prints the weights' types where
/// `types` are set. Throws Error, DataError, CheckpointError.
TextWriter load_text_writer(const std::string& source, const TextWriterOptions& options);

/// Throws Error (kRecipe) unless the model generates texts.
void require_texts(const Model& model, const std::string& source);

/// The texts of a checkpoint's model, which generates texts. Throws Error (kRecipe) for data
/// without a tokenizer.
std::unique_ptr<ModelTexts> checkpoint_texts(Model& model, const TrainedModel& trained,
                                             const std::string& tokenizer,
                                             const StagedForward& staged);

}  // namespace accel
