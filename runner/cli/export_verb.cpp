// export: a checkpoint's model as a folder that transformers reads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/accelerate_folder.h"
#include "checkpoint/convert.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/reader.h"
#include "checkpoint/stored_layout.h"
#include "checkpoint/tensors.h"
#include "core/base/activity.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "formats/tensors/tensor_source.h"
#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/lora/lora_folder.h"
#include "models/lora/lora_options.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "train/job/data_schema.h"
#include "train/loop/run_state.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kDefaultShard = "5 GB";
/// Files of a tokenizer, in a model folder or next to a tokenizer.json.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "vocab.txt",
                                           "tokenizer.model",
                                           "spiece.model",
                                           "chat_template.jinja"};

struct ExportArguments {
  std::string source;          ///< a run folder or a checkpoint
  std::string target;          ///< a folder that must not exist yet
  std::string max_shard_size;  ///< "5 GB", which is also the default
  bool merge = false;          ///< merge a LoRA adapter into the weights
};

/// The model of a checkpoint's recipe, and the origin of its files.
struct ExportSource {
  const HfFamily::Table* family;  ///< null: an adapter on a model that transformers lacks
  Node options;
  std::optional<LoraOptions> lora;
  std::string base;                  ///< the folder of the initial weights; none: ""
  std::set<std::string> tokenizers;  ///< files and folders in the recipe's data
  std::vector<std::string> labels;   ///< names of the classes
  std::string problem_type;          ///< of the task; "" for tasks that transformers does not name
};

/// Collects all values of `tokenizer` in the recipe.
void find_tokenizers(const Node& node, std::set<std::string>& paths) {
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) find_tokenizers(item, paths);
  }
  if (!node.map()) return;
  for (const Node::Entry& entry : *node.map()) {
    const Scalar* path = entry.key == "tokenizer" ? entry.node.scalar() : nullptr;
    if (path && !path->text.empty()) paths.insert(path->text);
    find_tokenizers(entry.node, paths);
  }
}

std::vector<std::string> labels_of(const TrainState& state) {
  const auto part = state.sections.find(kDataSection);
  if (part == state.sections.end()) return {};
  const auto shape = part->second.texts.find(kDataShape);
  return shape == part->second.texts.end() ? std::vector<std::string>()
                                           : shape_of_text(shape->second).labels;
}

/// Writes the class names of the data to id2label and label2id.
void name_labels(const std::vector<std::string>& labels, json& config) {
  const std::string architecture = config["architectures"].front().get<std::string>();
  const auto classes = config.find("id2label");
  if (!architecture.ends_with("Classification") || classes->size() != labels.size()) return;
  json names = json::object(), numbers = json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    numbers[labels[i]] = i;
  }
  config["id2label"] = names;
  config["label2id"] = numbers;
}

ExportSource source_of(const TrainState& state) {
  const Node tree = parse_saved_recipe("checkpoint.yaml", state.recipe, components());
  const Node& model = tree.find("model")->node;
  const std::string type = model.find("type")->node.scalar()->text;
  ExportSource out;
  out.family = HfFamily::of_component(type);
  out.options = detail::without_type(model);
  out.lora = lora_of(out.options);
  if (!out.family && !out.lora) {
    throw Error(ExitCode::kRecipe, text("transformers has no model for the type '{}'", type),
                text("there is one for {}; 'accel-run checkpoint convert --to safetensors' writes "
                     "only the weights",
                     quoted_list(HfFamily::components())));
  }
  out.labels = labels_of(state);
  const Node::Entry* task = tree.find("task");
  const Node::Entry* task_type = task ? task->node.find("type") : nullptr;
  if (task_type && task_type->node.scalar()) {
    out.problem_type = problem_type_of_task(task_type->node.scalar()->text);
  }
  const Node::Entry* weights = model.find("weights");
  if (weights && weights->node.scalar()) out.base = weights->node.scalar()->text;
  if (const Node::Entry* data = tree.find("data")) find_tokenizers(data->node, out.tokenizers);
  return out;
}

/// The config of the initial weights, if it still exists: it has keys that are not options of the
/// model, such as class names.
json base_config(const ExportSource& source) {
  std::error_code error;
  if (source.base.empty() || !fs::exists(source.base + "/config.json", error)) {
    return json::object();
  }
  const HfConfig config(source.base);
  return source.family->reads(config.model_type()) ? config.values() : json::object();
}

json generation_config(const json& config) {
  json out = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.contains(key) && !config[key].is_null()) out[key] = config[key];
  }
  return out;
}

/// Adds the existing files of a tokenizer, a folder or a file of any name.
void add_tokenizer(const fs::path& path, std::map<std::string, std::string>& files) {
  std::error_code error;
  const bool is_file = fs::is_regular_file(path, error);
  const bool is_model = path.extension() == ".model";
  if (is_file) files.emplace(is_model ? "tokenizer.model" : kTokenizerFiles[0], path.string());
  // Files next to a file of another name may belong to another tokenizer.
  if (is_file && path.filename() != kTokenizerFiles[0]) return;
  const fs::path folder = is_file ? path.parent_path() : path;
  for (const char* name : kTokenizerFiles) {
    if (fs::is_regular_file(folder / name, error)) files.emplace(name, (folder / name).string());
  }
}

/// The files of tokenizers, and generation_config.json, by name.
std::map<std::string, std::string> files_to_copy(const ExportSource& source) {
  std::map<std::string, std::string> out;
  std::error_code error;
  for (const std::string& path : source.tokenizers) {
    add_tokenizer(path, out);
    if (!fs::exists(path, error)) {
      warn(text("the tokenizer '{}' no longer exists: the folder is without it", path));
    }
  }
  if (out.empty() && !source.base.empty()) add_tokenizer(source.base, out);
  constexpr auto kGeneration = "generation_config.json";
  const std::string generation = (fs::path(source.base) / kGeneration).string();
  if (source.family->generates && !source.base.empty() && fs::is_regular_file(generation, error)) {
    out.emplace(kGeneration, generation);
  }
  return out;
}

/// The weights as the folder has them; layouts change one tensor at a time.
std::vector<TensorSource> stored_sources(const std::vector<TensorSource>& weights,
                                         const HfNames& names) {
  std::vector<TensorSource> out;
  for (const TensorSource& weight : weights) {
    TensorSource stored = weight;
    stored.name = names.stored_name(weight.name);
    const bool turned = std::any_of(
        names.transposed.begin(), names.transposed.end(),
        [&](const std::string& pattern) { return matches_hf_pattern(stored.name, pattern); });
    if (turned && weight.shape.size() == 2) {
      std::swap(stored.shape[0], stored.shape[1]);
      stored.read = [weight, names] {
        return stored_weight({weight.name, weight.read()}, names).array;
      };
    }
    out.push_back(std::move(stored));
  }
  return out;
}

/// Writes weights into one file, or into shards with an index.
void write_sources(FolderWriter& writer, const std::vector<TensorSource>& weights,
                   uint64_t max_shard_bytes) {
  constexpr WeightFormat kFormat = WeightFormat::kSafetensors;
  std::vector<WeightSize> sizes;
  for (const TensorSource& weight : weights) sizes.push_back({weight.name, weight.bytes()});
  const std::vector<WeightShard> shards = plan_weight_shards(sizes, max_shard_bytes, kFormat);
  for (const WeightShard& shard : shards) {
    std::vector<TensorSource> some;
    for (const size_t i : shard.weights) some.push_back(weights[i]);
    writer.add(shard.file, [&](const ByteSink& sink) { write_safetensors(some, sink); });
  }
  if (shards.size() > 1) {
    writer.add_text(weight_index_name(kFormat), weight_index_text(sizes, shards));
  }
}

void write_export(Files& files, const std::string& folder, const ExportSource& source,
                  const std::vector<TensorSource>& weights, uint64_t max_shard_bytes) {
  WeightShapes shapes;
  for (const TensorSource& weight : weights) shapes[weight.name] = weight.shape;
  json config = base_config(source);
  config.erase("torch_dtype");
  config["dtype"] = "float32";
  if (source.family->generates) {
    // transformers would default to GPT-2's ids, which may be outside the vocabulary.
    for (const char* key : {"bos_token_id", "eos_token_id"}) config.emplace(key, nullptr);
  }
  source.family->write_config(source.options, shapes, config);
  name_labels(source.labels, config);
  const std::string architecture = config["architectures"].front().get<std::string>();
  if (architecture.ends_with("SequenceClassification") ||
      architecture.ends_with("ImageClassification")) {
    if (!source.problem_type.empty()) config["problem_type"] = source.problem_type;
  }
  FolderWriter writer(files, folder);
  writer.add_text("config.json", config.dump(2) + "\n");
  const auto copies = files_to_copy(source);
  for (const auto& [name, path] : copies) {
    writer.add(name, [&, from = path](const ByteSink& sink) { sink(map_file(from).view); });
  }
  if (copies.contains("tokenizer.json") && !copies.contains("tokenizer_config.json")) {
    // Else transformers takes the tokenizer class of the model type.
    writer.add_text("tokenizer_config.json",
                    json{{"tokenizer_class", "PreTrainedTokenizerFast"}}.dump(2) + "\n");
  }
  if (source.family->generates && !copies.contains("generation_config.json")) {
    writer.add_text("generation_config.json", generation_config(config).dump(2) + "\n");
  }
  for (const auto& [name, code] : source.family->python_files(config)) writer.add_text(name, code);
  const HfNames names = source.family->names(source.options);
  write_sources(writer, stored_sources(weights, names), max_shard_bytes);
  files.sync_dir(folder);
}

/// A layer's weight with its adapter: plus its product, and with DoRA of the magnitude's length.
Array merged(const NamedArray& weight, const std::map<std::string, Array>& weights, double scale) {
  const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
  const at::Tensor product =
      tensor_of(weights.at(layer + kLoraB)).mm(tensor_of(weights.at(layer + kLoraA))).mul(scale);
  at::Tensor sum = tensor_of(weight.array).add(product);
  if (const auto magnitude = weights.find(layer + kLoraMagnitude); magnitude != weights.end()) {
    sum = sum.mul(tensor_of(magnitude->second).div(sum.norm(2, {1})).unsqueeze(1));
  }
  return array_of(sum, weight.name);
}

Array merged_bias(const NamedArray& bias, const Array& more, double scale) {
  return array_of(tensor_of(bias.array).add(tensor_of(more).mul(scale)), bias.name);
}

/// The weights of a model with its adapter merged into them, one at a time.
std::vector<TensorSource> merged_weights(const std::vector<NamedArray>& weights,
                                         const LoraOptions& lora) {
  const auto by_name = std::make_shared<std::map<std::string, Array>>();
  for (const NamedArray& weight : weights) (*by_name)[weight.name] = weight.array;
  for (const std::string& layer : adapted_layers(weights)) {
    if (!by_name->contains(layer + kLoraBias) || by_name->contains(layer + ".bias")) continue;
    throw Error(
        ExitCode::kRecipe,
        text("'--merge' cannot merge the bias of the adapter of '{}', which has none", layer),
        "leave '--merge' out: the adapter is exported with its bias");
  }
  std::vector<TensorSource> out;
  for (const NamedArray& weight : weights) {
    if (is_of_adapter(weight.name)) continue;
    const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
    TensorSource source = source_of(weight);
    if (by_name->contains(layer + kLoraA)) {
      const double scale = lora.for_layer(layer).scale();
      if (weight.name.ends_with(".weight")) {
        source.read = [weight, by_name, scale] { return merged(weight, *by_name, scale); };
      } else if (by_name->contains(layer + kLoraBias)) {
        source.read = [weight, more = by_name->at(layer + kLoraBias), scale] {
          return merged_bias(weight, more, scale);
        };
      }
    }
    out.push_back(std::move(source));
  }
  return out;
}

/// The weights as the checkpoint has them, with the adapter merged if there is one.
std::vector<TensorSource> whole_weights(const std::vector<NamedArray>& weights,
                                        const ExportSource& source) {
  if (source.lora) return merged_weights(weights, *source.lora);
  std::vector<TensorSource> out;
  for (const NamedArray& weight : weights) out.push_back(source_of(weight));
  return out;
}

/// Writes the adapter alone, as PEFT reads it.
void write_adapter(FolderWriter& writer, const std::vector<NamedArray>& adapter,
                   const nlohmann::json& config) {
  const std::set<std::string> adapted = adapted_layers(adapter);
  std::vector<NamedArray> stored;
  for (const NamedArray& weight : adapter) {
    stored.push_back({kAdapterPrefix + peft_name(weight.name, adapted), weight.array});
  }
  writer.add_text(kAdapterConfig, config.dump(2) + "\n");
  writer.add_tensors(kAdapterWeights, stored);
}

/// Writes the adapter without the base model.
void write_adapter_export(Files& files, const std::string& folder, const ExportSource& source,
                          const std::vector<NamedArray>& weights) {
  const HfNames names = source.family ? source.family->names(source.options) : HfNames();
  LoraOptions lora = *source.lora;
  lora.modules_to_save = {also_trained(lora, names, source.family && source.family->generates)};
  const std::vector<NamedArray> adapter = adapter_weights(weights, lora);
  FolderWriter writer(files, folder);
  write_adapter(writer, adapter, adapter_config(lora, adapter, names, source.base));
  files.sync_dir(folder);
}

/// Rejects options without effect.
void check_export(const ExportArguments& arguments, const ExportSource& source) {
  if (arguments.merge && !source.lora) {
    throw Error(ExitCode::kRecipe, "'--merge' merges an adapter, and this model has none",
                "leave it out");
  }
  if (arguments.merge && !source.family) {
    throw Error(ExitCode::kRecipe, "transformers has no model for an exported program",
                "leave '--merge' out: PEFT loads the adapter into the Python module and merges it");
  }
  if (!arguments.max_shard_size.empty() && source.lora && !arguments.merge) {
    throw Error(ExitCode::kRecipe,
                "'--max-shard-size' splits a model's weights, and an adapter is one file",
                "leave it out, or add '--merge'");
  }
}

bool has_python_files(const std::vector<DirEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const DirEntry& entry) { return entry.name.ends_with(".py"); });
}

ExitCode export_verb(const ExportArguments& arguments) {
  DiskFiles files;
  const uint64_t max_shard_bytes =
      shard_bytes(arguments.max_shard_size.empty() ? kDefaultShard : arguments.max_shard_size);
  const std::string target = new_folder(arguments.target);
  const std::string folder = checkpoint_at(files, arguments.source);
  verify_checkpoint(files, folder);
  const TrainState state = inspect_checkpoint(files, folder).state;
  const ExportSource source = source_of(state);
  check_export(arguments, source);
  std::vector<NamedArray> weights = read_weights(files, folder).tensors;
  if (state.layout) weights = own_arrays(*state.layout, weights);
  publish_folder(files, target, [&](const std::string& staged) {
    const Activity shown("writing " + target);
    if (source.lora && !arguments.merge) {
      write_adapter_export(files, staged, source, weights);
    } else {
      write_export(files, staged, source, whole_weights(weights, source), max_shard_bytes);
    }
  });
  const std::vector<DirEntry> written = files.list(target);
  std::cout << arguments.target << '\n' << listing_text(written);
  if (has_python_files(written)) {
    say("transformers loads it with trust_remote_code=True: the .py file has the model's code");
  }
  return ExitCode::kDone;
}

}  // namespace

void add_export_verb(VerbTable& verbs) {
  const auto to = std::make_shared<ExportArguments>();
  CLI::App& verb =
      verbs.add("export", "write the model of a checkpoint as a folder for transformers",
                verbs.with_torch([to] { return export_verb(*to); }));
  verb.add_option("source", to->source, "a checkpoint, or a run folder for its newest")->required();
  verb.add_option("--to", to->target, "a folder that must not exist yet")->required();
  verb.add_option("--max-shard-size", to->max_shard_size,
                  "split the weights into files of at most this size; default: '5 GB'");
  verb.add_flag("--merge", to->merge,
                "merge a LoRA adapter into the weights; else only the adapter is written");
}

}  // namespace accel
