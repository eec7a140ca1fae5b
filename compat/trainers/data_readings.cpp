#include "compat/trainers/data_readings.h"

#include <algorithm>
#include <fstream>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/model_families.h"
#include "core/base/convert_command.h"
#include "core/base/text.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

/// Patterns of names in a list or a text with commas; empty for all of them.
Node::List name_patterns(const Node& names, const std::string& prefix, const std::string& suffix) {
  Node::List patterns;
  const auto add = [&](const std::string& name) {
    if (name.empty() || name == "all" || name == "all-linear") return;
    patterns.push_back(escape_references(scalar_node(prefix + name + suffix, true)));
  };
  if (const Scalar* scalar = names.scalar()) {
    std::string rest = scalar->text;
    std::erase(rest, ' ');
    for (size_t end = 0; (end = rest.find(',')) != rest.npos; rest.erase(0, end + 1)) {
      add(rest.substr(0, end));
    }
    add(rest);
  } else if (const Node::List* list = names.list()) {
    for (const Node& item : *list) add(item.scalar() ? item.scalar()->text : "");
  }
  return patterns;
}

void read_lora_targets(TrainerConfig& config, const LoraKeys& keys, const std::string& type) {
  if (const Node::Entry* targets = config.find(keys.targets)) {
    const Scalar* name = targets->node.scalar();
    if (keys.regex && name && name->text != "all-linear") {
      return config.refuse(keys.targets, "it is a regular expression of layers",
                           "list the layers' names, which become 'model.lora.target_modules'");
    }
    Node::List patterns = name_patterns(targets->node, "*.", "");
    for (Node& pattern : patterns) {  // a head has no module around it
      if (pattern.scalar()->text == "*.lm_head") pattern.scalar()->text = "lm_head";
    }
    if (patterns.empty()) return config.ignore(keys.targets);
    return config.set("model.lora.target_modules", {patterns, {}}, keys.targets);
  }
  if (keys.all_by_default) return;
  Node::List patterns;
  for (const std::string& layer : peft_targets(type)) {
    patterns.push_back(scalar_node("*." + layer, true));
  }
  if (patterns.empty()) {
    return config.refuse(keys.targets,
                         "the layers that PEFT adapts by default depend on the model's type, "
                         "which is unknown here",
                         "list the layers' names, or import where the model's folder is");
  }
  config.set("model.lora.target_modules", {patterns, {}}, keys.targets);
}

/// Starts of LoRA's matrices with one name here and in PEFT.
constexpr std::string_view kInitializations = "gaussian pissa olora";

constexpr auto kHubDatasets = "hf:datasets/";

/// The path in the recipe. A dataset of the hub becomes a file beside the recipe.
std::string path_of(TrainerConfig& config, const DataFile& file, const std::string& field) {
  if (file.path.ends_with(".parquet") && file.kind != DataFile::Kind::kDocuments) {
    const std::string rows = file.path.substr(0, file.path.rfind('.')) + ".jsonl";
    config.miss(text("{}: {}", rows, convert_command(file.path, ".jsonl")));
    return rows;
  }
  if (is_local_path(file.path)) {
    if (!file.split.empty() && file.split != "train") {
      config.remark(text("data: all of '{}' is read, where the config has its split '{}'",
                         file.path, file.split));
    }
    return file.path;
  }
  // A download has the files of all configurations.
  if (file.kind == DataFile::Kind::kDocuments && file.path.find('/') != file.path.npos &&
      file.subset.empty()) {
    config.miss(
        text("{}{}: accel-run download {}{}", kHubDatasets, file.path, kHubDatasets, file.path));
    return kHubDatasets + file.path;
  }
  const std::string path = "./" + file.path.substr(file.path.find_last_of('/') + 1) + ".jsonl";
  const std::string split = file.split.empty() ? "train" : file.split;
  const std::string subset =
      file.subset.empty() ? "" : text(" in its configuration '{}'", file.subset);
  config.miss(text("{}: split '{}' of the dataset '{}'{} as JSON Lines with the field '{}'", path,
                   split, file.path, subset, field));
  return path;
}

Node::Entry entry_of(const char* key, Node value) {
  return {key, {}, std::move(value)};
}

/// Keys and roles of messages that differ from those of chat templates.
void add_message_keys(const DataFile& file, Node::Map& map) {
  for (const auto& [key, value, usual] : {std::tuple("role_key", file.role_key, "role"),
                                          std::tuple("content_key", file.content_key, "content")}) {
    if (value.empty() || value == usual) continue;
    map.push_back(entry_of(key, escape_references(scalar_node(value, true))));
  }
  if (file.roles.empty()) return;
  Node::Map roles;
  for (const auto& [theirs, role] : file.roles) {
    roles.push_back(entry_of(theirs.c_str(), escape_references(scalar_node(role, true))));
  }
  map.push_back(entry_of("roles", {std::move(roles), {}}));
}

bool is_unpaired(const DataFile& file) {
  return file.kind == DataFile::Kind::kUnpaired;
}

bool has_prompts_only(const DataFile& file) {
  return file.kind == DataFile::Kind::kPrompts;
}

Node preference_section(TrainerConfig& config, const DataFile& file) {
  const bool prompts = has_prompts_only(file);
  const std::string prompt = file.field.empty() ? "prompt" : file.field;
  const std::string field = prompts ? prompt : is_unpaired(file) ? "label" : "chosen";
  const char* const type = prompts ? "prompts" : is_unpaired(file) ? "unpaired" : "preference";
  const std::string path = path_of(config, file, field);
  Node::Map map = {entry_of("type", scalar_node(type)),
                   entry_of("path", escape_references(scalar_node(path, true))),
                   entry_of("tokenizer", scalar_node("${vars.model}"))};
  if (!file.field.empty() && file.field != "prompt") {
    map.push_back(entry_of("prompt", escape_references(scalar_node(file.field, true))));
  }
  add_message_keys(file, map);
  map.push_back(entry_of("max_length", escape_references(scalar_node(file.max_length))));
  if (file.keep_end && !is_unpaired(file)) {
    map.push_back(entry_of("truncation_mode", scalar_node("keep_end")));
  }
  if (file.texts_as_messages) map.push_back(entry_of("texts_as_messages", scalar_node("true")));
  if (!file.label.empty()) {
    map.push_back(entry_of("label", escape_references(scalar_node(file.label, true))));
  }
  return {std::move(map), {}};
}

Node chat_section(TrainerConfig& config, const DataFile& file) {
  const std::string field = file.completions     ? "completion"
                            : file.field.empty() ? "messages"
                                                 : file.field;
  const std::string path = path_of(config, file, field);
  Node::Map map = {entry_of("type", scalar_node("chat")),
                   entry_of("path", escape_references(scalar_node(path, true))),
                   entry_of("tokenizer", scalar_node("${vars.model}"))};
  if (file.completions) {
    for (const char* name : {"prompt", "completion"}) {
      map.push_back(entry_of(name, scalar_node(name)));
    }
    map.push_back(entry_of("answers", scalar_node("completion")));
  } else if (field != "messages") {
    map.push_back(entry_of("messages", escape_references(scalar_node(field, true))));
  }
  add_message_keys(file, map);
  map.push_back(entry_of("max_length", escape_references(scalar_node(file.max_length))));
  if (file.pack) map.push_back(entry_of("pack", scalar_node("true")));
  if (!file.answers_only) map.push_back(entry_of("answers_only", scalar_node("false")));
  if (file.last_answer) map.push_back(entry_of("answers", scalar_node("last")));
  return {std::move(map), {}};
}

/// One text per sample.
Node documents_section(TrainerConfig& config, const DataFile& file) {
  const std::string field = file.field.empty() ? "text" : file.field;
  const std::string path = path_of(config, file, field);
  const bool hub = path.starts_with(kHubDatasets);
  const char* const type = hub ? "hf" : path.ends_with(".parquet") ? "parquet" : "jsonl";
  Node::Map map = {entry_of("type", scalar_node(type)),
                   entry_of("path", escape_references(scalar_node(path, true)))};
  if (hub && !file.split.empty() && file.split != "train") {
    map.push_back(entry_of("split", escape_references(scalar_node(file.split, true))));
  }
  if (field != "text") map.push_back(entry_of("text", escape_references(scalar_node(field, true))));
  map.push_back(entry_of("tokenizer", scalar_node("${vars.model}")));
  map.push_back(entry_of("max_length", escape_references(scalar_node(file.max_length))));
  if (file.append_eos) map.push_back(entry_of("append_eos", scalar_node("true")));
  if (file.pack) map.push_back(entry_of("pack", scalar_node("true")));
  return {std::move(map), {}};
}

/// All texts concatenated and split into windows.
Node windows_section(TrainerConfig& config, const DataFile& file) {
  const std::string field = file.field.empty() ? "text" : file.field;
  const std::string path = path_of(config, file, field);
  Node::Map map = {entry_of("type", scalar_node("text")),
                   entry_of("path", escape_references(scalar_node(path, true)))};
  if (!path.ends_with(".txt")) {
    map.push_back(entry_of("json_field", escape_references(scalar_node(field, true))));
  }
  map.push_back(entry_of("level", scalar_node("tokens")));
  map.push_back(entry_of("tokenizer", scalar_node("${vars.model}")));
  map.push_back(entry_of("max_seq_len", escape_references(scalar_node(file.max_length))));
  return {std::move(map), {}};
}

bool has_windows(const DataFile& file) {
  return file.kind == DataFile::Kind::kWindows ||
         (file.kind == DataFile::Kind::kDocuments && file.path.ends_with(".txt"));
}

bool is_preference(const DataFile& file) {
  return file.kind == DataFile::Kind::kPreference || is_unpaired(file) || has_prompts_only(file);
}

Node section_of(TrainerConfig& config, const DataFile& file) {
  Node section = file.kind == DataFile::Kind::kChat ? chat_section(config, file)
                 : is_preference(file)              ? preference_section(config, file)
                 : has_windows(file)                ? windows_section(config, file)
                                                    : documents_section(config, file);
  if (!file.first.empty()) {
    const char* key = config.program().has_key("data.train.head") ? "head" : "limit";
    section.map()->push_back(entry_of(key, escape_references(scalar_node(file.first))));
  }
  return section;
}

/// The single text file of `data.train`, or null.
Node* windows_of(TrainerConfig& config) {
  Node::Entry* data = config.out().recipe.find("data");
  Node::Entry* train = data ? data->node.find("train") : nullptr;
  const Node::Entry* type = train && train->node.map() ? train->node.find("type") : nullptr;
  const bool windows = type && type->node.scalar() && type->node.scalar()->text == "text";
  return windows ? &train->node : nullptr;
}

}  // namespace

void check_family(TrainerConfig& config, const std::string& key, const std::string& name,
                  const std::string& type) {
  if (type.empty() || !config.program().lacks_model(type)) return;
  config.refuse(key, text("'{}' is a model of type '{}', which is not available", name, type),
                "'accel-run explain model auto' shows the models of Hugging Face folders");
}

std::string read_model_folder(TrainerConfig& config, const std::string& key) {
  const std::optional<std::string> name = config.text(key);
  if (!name) {
    config.skip(key, "it names no model: the recipe has none");
    return {};
  }
  const ModelFamily family = family_of(*name);
  if (family.guessed && config.program().lacks_model(family.type)) {
    config.refuse(
        key,
        text("the name '{}' is that of a model of type '{}', which is not available", *name,
             family.type),
        "if it has another type, import where its folder is: its config.json shows the type");
    return family.type;
  }
  check_family(config, key, *name, family.type);
  const bool folder = name->starts_with('.') || name->starts_with('/');
  config.set_text("vars.model", folder ? *name : "./" + *name, key);
  config.put("model.type", "auto");
  config.put("model.weights", "${vars.model}");
  if (!folder) {
    config.miss(text("./{}: accel-run download hf:{} --to ./{}", *name, *name, *name));
  }
  return family.type;
}

void read_lora(TrainerConfig& config, const LoraKeys& keys, const std::string& model_type) {
  const double rank = config.number(keys.rank).value_or(keys.default_rank);
  config.set_text("model.lora.rank", show_number(rank), keys.rank);
  const double alpha = keys.alpha_per_rank > 0 ? keys.alpha_per_rank * rank : keys.default_alpha;
  config.set_text("model.lora.alpha", config.text(keys.alpha).value_or(show_number(alpha)),
                  keys.alpha);
  config.set_text("model.lora.dropout", config.text(keys.dropout).value_or(keys.default_dropout),
                  keys.dropout);
  if (config.flag(keys.rslora)) config.set_text("model.lora.rslora", "true", keys.rslora);
  if (config.flag(keys.dora)) config.set_text("model.lora.dora", "true", keys.dora);
  if (const auto start = config.text(keys.init); start && has_word(kInitializations, *start)) {
    config.set_text("model.lora.init", *start, keys.init);
  }
  read_lora_targets(config, keys, model_type);
  if (const Node::Entry* saved = config.find(keys.saved)) {
    config.set("model.lora.modules_to_save", {name_patterns(saved->node, "*", ".*"), {}},
               keys.saved);
  }
}

void set_quantization(TrainerConfig& config, const QuantizationValues& values) {
  if (values.type != "nf4" && values.type != "fp4") {
    return config.refuse(values.type_key, text("'{}' is no type of 4-bit weights", values.type),
                         "write nf4 or fp4");
  }
  config.set_text("model.quantization.type", values.type, values.key);
  if (values.double_quant) {
    config.set_text("model.quantization.double_quant", "true", values.key);
  }
}

void set_datasets(TrainerConfig& config, const std::string& target,
                  const std::vector<DataFile>& files, const std::string& key) {
  if (files.empty()) return;
  Node::List list;
  for (const DataFile& file : files) list.push_back(section_of(config, file));
  config.set(target, list.size() == 1 ? list.front() : Node{std::move(list), {}}, key);
  if (is_preference(files.front()) || target != "data.train") return;
  constexpr auto kNoise = "neftune_noise_alpha";
  if (config.number(kNoise).value_or(0) <= 0) return config.put("task", "causal_lm");
  config.put("task.type", "causal_lm");
  config.set_text(std::string("task.") + kNoise, *config.text(kNoise), kNoise);
}

std::string length_key(const DataFile& file) {
  return has_windows(file) ? "data.train.max_seq_len" : "data.train.max_length";
}

void set_held_out(TrainerConfig& config, const std::string& key) {
  const double held = config.number(key).value_or(0);
  if (held <= 0) return;
  const bool share = held < 1;
  Node* windows = windows_of(config);
  if (config.program().has_key("data.split.eval")) {
    config.set_text("data.split.eval", share ? show_number(held * 100) + '%' : show_number(held),
                    key);
  } else if (windows && share) {
    Node eval = *windows;
    const std::string border = show_number(1 - held);
    windows->map()->push_back(entry_of("to", scalar_node(border)));
    eval.map()->push_back(entry_of("from", scalar_node(border)));
    config.set("data.eval", std::move(eval), key);
  } else {
    config.skip(key, "write a dataset of held-out samples in 'data.eval'");
  }
}

bool is_text_file(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".json") || path.ends_with(".txt");
}

bool is_local_path(const std::string& path) {
  return path.starts_with('.') || path.starts_with('/') || path.starts_with('~') ||
         is_text_file(path) || path.ends_with(".csv") || path.ends_with(".parquet") ||
         path.ends_with(".gz");
}

std::string field_of_file(const std::string& path) {
  constexpr size_t kLongestLine = 65'536;
  std::ifstream file(path, std::ios::binary);
  std::string start(kLongestLine, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  const std::string line = start.substr(0, start.find('\n'));
  if (!line.starts_with('{')) return {};
  try {
    const Node first = parse_recipe("line.json", line);
    if (first.find("prompt") && first.find("completion")) return "completion";
    for (const char* field : {"chosen", "messages", "text"}) {
      if (first.find(field)) return field;
    }
  } catch (const RecipeError&) {
    return {};  // reported when the file is read
  }
  return {};
}

}  // namespace accel
