#include "runner/cli/export/export_source.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "models/hf/problem_type.h"
#include "runner/cli/load_recipe.h"
#include "train/job/build_streaming.h"
#include "train/job/data_schema.h"
#include "train/loop/run_state.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

ExportSource export_source(const TrainState& state) {
  const Node tree = parse_saved_recipe("checkpoint.yaml", state.recipe, components());
  const Node& model = tree.find("model")->node;
  const std::string type = model.find("type")->node.scalar()->text;
  ExportSource out;
  out.family = HfFamily::of_component(type);
  out.options = detail::without_type(model);
  out.lora = lora_of(out.options);
  out.quantization = quantization_of(out.options);
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
    out.task = task_type->node.scalar()->text;
    out.problem_type = problem_type_of_task(out.task);
  }
  const Node::Entry* weights = model.find("weights");
  if (weights && weights->node.scalar()) out.base = weights->node.scalar()->text;
  out.has_trained_only = keeps_frozen_in_folder(tree);
  if (const Node::Entry* data = tree.find("data")) {
    out.data = data->node;
    find_tokenizers(out.data, out.tokenizers);
  }
  return out;
}

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

}  // namespace accel
