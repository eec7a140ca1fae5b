#include "runner/cli/generation/text_writer.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/reader.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/memory/skip_init.h"
#include "models/hf/map_hf_weights.h"
#include "models/layers/module_state.h"
#include "models/quantized/quantization_options.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/mesh_model.h"
#include "runner/cli/weight_type_flags.h"
#include "text/pretrained/tokenizer_folder.h"
#include "train/job/torch_setup.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

bool path_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

nlohmann::json config_of(const fs::path& folder) {
  std::ifstream in(folder / "config.json");
  return nlohmann::json::parse(in, nullptr, false);
}

/// The ids under `eos_token_id` of a config.json: one, or a list; none where it has none.
void add_ends(const nlohmann::json& config, std::set<int64_t>& ends) {
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (!config.is_object() || found == config.end()) return;
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (id.is_number_integer()) ends.insert(id.get<int64_t>());
  }
}

/// By generation_config.json, or, as in transformers, in its absence by the keys of config.json.
void read_config_of(const fs::path& folder, TextWriter& out) {
  const nlohmann::json model = config_of(folder);
  add_ends(model, out.config.eos_token_id);
  const fs::path config = folder / "generation_config.json";
  if (path_exists(config)) {
    read_generation_config(config, out.config);
    out.config_file = config.string();
    return;
  }
  nlohmann::json keys = generation_keys_in(model);
  keys.erase("eos_token_id");
  out.config_file = (folder / "config.json").string();
  read_generation_config(keys, out.config_file, out.config);
}

/// The codec of prompts, or of sources.
std::unique_ptr<TextCodec> codec_of(const Model& model, const std::string& tokenizer) {
  return dynamic_cast<const EncoderDecoder*>(&model) ? codec_of_sources({.tokenizer = tokenizer})
                                                     : codec_of_tokenizer(tokenizer, true);
}

/// The model of a folder. `defers` as TextWriterOptions.
std::unique_ptr<Model> mapped_model(const Ref<Model>& ref, std::optional<at::ScalarType> dtype,
                                    bool defers) {
  const SkipInit replaced;
  const MapHfWeights mapped(dtype);
  std::optional<DeferredInit> deferred;
  if (defers) deferred.emplace();
  std::unique_ptr<Model> model = ref.make({});
  if (!defers) return model;
  std::vector<at::Tensor> kept;
  for (const Parameter& item : parameters_of(*model)) kept.push_back(item.local);
  deferred->materialize_except(kept);
  return model;
}

/// With weights of other types one at a time. Quantized models defer their initialization
/// themselves.
std::unique_ptr<Model> model_of(const Ref<Model>& ref, const TextWriterOptions& options) {
  const WeightTypes& types = options.types;
  const bool converts = types.is_set() && !quantization_of(ref.resolved).is_on();
  std::unique_ptr<Model> model = mapped_model(ref, types.scalar_type(), options.defers || converts);
  print_weight_types(*model, types, convert_weights(*model, types, ref.resolved));
  return model;
}

TextWriter writer_of_folder(const std::string& folder, const TextWriterOptions& wanted) {
  const std::string& tokenizer = wanted.tokenizer;
  if (tokenizer.empty() && !path_exists(fs::path(folder) / "tokenizer.json") &&
      !has_class_vocabulary(folder)) {
    throw DataError(text("'{}' has no tokenizer.json", folder), "name one with --tokenizer");
  }
  Node options{Node::Map{}, {}};
  options.map()->push_back({"type", {}, scalar_node("auto")});
  options.map()->push_back({"weights", {}, scalar_node(folder, true)});
  Diagnostics problems;
  Reading reading{problems, components()};
  const Ref<Model> ref = components().of<Model>().prepare(options, reading);
  problems.check();
  TextWriter out;
  read_config_of(folder, out);
  set_up_torch(RecipeOptions(), 1);
  out.model = model_of(ref, wanted);
  require_texts(*out.model, folder);
  set_training(*out.model, false);
  out.tokenizer = tokenizer.empty() ? folder : tokenizer;
  out.texts = std::make_unique<ModelTexts>(*out.model, codec_of(*out.model, out.tokenizer), 0);
  return out;
}

TextWriter writer_of_checkpoint(DiskFiles& files, const std::string& source,
                                const TextWriterOptions& options) {
  const std::string& tokenizer = options.tokenizer;
  TrainedModel trained = load_trained(files, checkpoint_at(files, source), components_for);
  print_weight_types(*trained.model, options.types, convert_weights(trained, options.types));
  TextWriter out;
  out.model = std::move(trained.model);
  out.registry = trained.registry;
  out.config = config_of_runs();
  out.tokenizer = tokenizer.empty() ? named_in_data(trained.resolved, "tokenizer") : tokenizer;
  out.chat_template = named_in_data(trained.resolved, "chat_template");
  require_texts(*out.model, source);
  out.texts = checkpoint_texts(*out.model, trained, tokenizer, {});
  return out;
}

}  // namespace

GenerationConfig config_of_runs() {
  GenerationConfig config;
  config.do_sample = true;
  config.top_k = 0;
  return config;
}

void require_texts(const Model& model, const std::string& source) {
  if (generates_texts(model)) return;
  throw Error(ExitCode::kRecipe, text("the model of '{}' is not a language model", source),
              "'generate' needs one, such as gpt or llama, or an encoder-decoder such as t5");
}

std::unique_ptr<ModelTexts> checkpoint_texts(Model& model, const TrainedModel& trained,
                                             const std::string& tokenizer,
                                             const StagedForward& staged) {
  if (!tokenizer.empty()) {
    const int64_t context = trained.data.input.empty() ? 0 : trained.data.input.front();
    return std::make_unique<ModelTexts>(model, codec_of(model, tokenizer), context,
                                        std::set<int64_t>(), staged);
  }
  require_tokenizer(trained);
  auto texts = texts_of(model, trained.resolved, trained.data, staged);
  if (texts) return texts;
  throw Error(ExitCode::kRecipe, text("the training data of '{}' has no tokenizer", trained.folder),
              "name a tokenizer with --tokenizer");
}

TextWriter load_text_writer(const std::string& source, const TextWriterOptions& options) {
  DiskFiles files;
  const bool folder = !is_run(source) && path_exists(fs::path(source) / "config.json") &&
                      !has_manifest(files, source);
  return folder ? writer_of_folder(source, options) : writer_of_checkpoint(files, source, options);
}

}  // namespace accel
