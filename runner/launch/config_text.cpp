#include "runner/launch/config_text.h"

#include <algorithm>
#include <utility>

#include "core/json_text.h"
#include "core/scalar.h"
#include "runner/launch/accelerate_words.h"
#include "runner/launch/config_file.h"
#include "runner/launch/config_keys.h"

namespace accel {
namespace {

/// A value that a file has when it does not say otherwise; `text`: quoted, as Python's YAML reads
/// some words as true or false.
struct DefaultValue {
  const char* key;
  const char* value;
  bool text = false;
};

constexpr DefaultValue kConfigDefaults[] = {
    {"compute_environment", "LOCAL_MACHINE"},
    {"debug", "false"},
    {"downcast_bf16", "no", true},
    {"enable_cpu_affinity", "false"},
    {"machine_rank", "0"},
    {"main_training_function", "main"},
    {"num_machines", "1"},
    {"num_processes", "-1"},
    {"rdzv_backend", "static"},
    {"same_network", "false"},
    {"tpu_use_cluster", "false"},
    {"tpu_use_sudo", "false"},
    {"use_cpu", "false"},
};

/// Keys of which Python's YAML would take some values for true or false.
constexpr const char* kTextKeys[] = {"distributed_type", "mixed_precision", "dynamo_backend"};

void put(Node& tree, const std::string& key, const std::string& value, bool text = false) {
  Node node = scalar_node(value, text);
  if (Node::Entry* entry = tree.find(key)) {
    entry->node = std::move(node);
  } else {
    tree.map()->push_back({key, {}, std::move(node)});
  }
}

void add_config_defaults(Node& tree) {
  const Node::Entry* type = tree.find("distributed_type");
  const bool alone = type && says_nothing(type->node, kOffWords);
  for (const DefaultValue& option : kConfigDefaults) {
    if (tree.find(option.key)) continue;
    const bool one = alone && std::string_view(option.key) == "num_processes";
    put(tree, option.key, one ? "1" : option.value, option.text);
  }
}

void take_out(Node& tree, std::string_view key) {
  std::erase_if(*tree.map(), [&](const Node::Entry& entry) { return entry.key == key; });
}

bool is_on(const Node& value, const std::string& key, Diagnostics& problems) {
  return read_truth(value, shown_word(key, ": ", value), problems).value_or(false);
}

/// `fp16` and `dynamo_backend` by the names of today.
void rename_old_keys(Node& tree, Diagnostics& problems) {
  if (const Node::Entry* old = tree.find("fp16")) {
    const bool on = is_on(old->node, "fp16", problems);
    take_out(tree, "fp16");
    if (on && !tree.find("mixed_precision")) put(tree, "mixed_precision", "fp16");
  }
  if (const Node::Entry* old = tree.find("dynamo_backend")) {
    const Node backend = old->node;
    take_out(tree, "dynamo_backend");
    if (!says_nothing(backend, kOffWords) && !tree.find("dynamo_config")) {
      tree.map()->push_back(
          {"dynamo_config", {}, {Node::Map{{"dynamo_backend", {}, backend}}, {}}});
    }
  }
}

/// Written so that Python's YAML reads the texts as texts.
void quote_texts(Node& tree) {
  for (const char* key : kTextKeys) {
    Node::Entry* entry = tree.find(key);
    if (entry && entry->node.scalar()) entry->node.scalar()->quoted = true;
  }
  for (Node::Entry& entry : *tree.map()) {
    if (entry.node.map()) quote_texts(entry.node);
  }
}

void check_keys(const Node& tree, Diagnostics& problems) {
  std::vector<std::string> names = names_of(config_keys());
  std::erase_if(names, [](const std::string& name) { return name.starts_with("gradient_"); });
  for (const Node::Entry& entry : *tree.map()) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    problems.error(entry.where, "Accelerate's config has no '" + entry.key + "'",
                   did_you_mean(entry.key, names));
  }
}

Node sorted(Node tree) {
  if (Node::Map* map = tree.map()) {
    std::sort(map->begin(), map->end(),
              [](const Node::Entry& a, const Node::Entry& b) { return a.key < b.key; });
    for (Node::Entry& entry : *map) entry.node = sorted(std::move(entry.node));
  }
  return tree;
}

std::string json_of(const Node& node, const std::string& indent) {
  const std::string inner = indent + "  ";
  std::string out;
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) {
      out.append(out.empty() ? "{\n" : ",\n").append(inner).append(json_text(entry.key));
      out.append(": ").append(json_of(entry.node, inner));
    }
    return out.empty() ? "{}" : out + "\n" + indent + "}";
  }
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) {
      out.append(out.empty() ? "[" : ", ").append(json_of(item, inner));
    }
    return out.empty() ? "[]" : out + "]";
  }
  const Scalar* scalar = node.scalar();
  if (!scalar) return "null";
  const bool literal = scalar->text == "true" || scalar->text == "false" ||
                       parse_integer(*scalar).value || parse_number(*scalar).value;
  return !scalar->quoted && literal ? scalar->text : json_text(scalar->text);
}

}  // namespace

Node config_tree(const ConfigAnswers& answers) {
  const auto word = [](bool on) { return on ? "true" : "false"; };
  const bool gpus = answers.kind == ConfigKind::kSeveralGpus;
  const bool one = answers.kind == ConfigKind::kOneProcess;
  const bool on_cpu = one ? answers.use_cpu : !gpus;
  Node tree = {Node::Map{}, {}};
  put(tree, "distributed_type", one ? "NO" : gpus ? "MULTI_GPU" : "MULTI_CPU", true);
  put(tree, "use_cpu", word(on_cpu));
  if (!on_cpu) put(tree, "gpu_ids", answers.gpu_ids, true);
  put(tree, "debug", word(answers.debug));
  put(tree, "num_processes", std::to_string(answers.num_processes));
  put(tree, "num_machines", std::to_string(answers.num_machines));
  put(tree, "machine_rank", std::to_string(answers.machine_rank));
  put(tree, "mixed_precision", answers.mixed_precision, true);
  put(tree, "same_network", "true");
  if (answers.num_machines > 1) {
    put(tree, "main_process_ip", answers.main_process_ip, true);
    put(tree, "main_process_port", std::to_string(answers.main_process_port));
  }
  add_config_defaults(tree);
  return tree;
}

Node updated_config(const Node& tree, Diagnostics& problems) {
  if (is_recipe_piece(tree)) {
    problems.error(tree.where, "this is a piece of a recipe, not a config of Accelerate's",
                   "there is nothing to update");
    return tree;
  }
  check_keys(tree, problems);
  if (!tree.find("distributed_type")) {
    problems.error(tree.where, "'distributed_type' is missing",
                   "write 'distributed_type: NO' or 'distributed_type: MULTI_CPU'");
  }
  const Node::Entry* place = tree.find("compute_environment");
  if (place && !says_nothing(place->node, "local_machine")) {
    WordLayer(problems).refuse(place->node.where,
                               shown_word("compute_environment", ": ", place->node),
                               reasons::kSageMaker, "write LOCAL_MACHINE");
  }
  Node updated = tree;
  rename_old_keys(updated, problems);
  std::erase_if(*updated.map(), [](const Node::Entry& entry) {
    return entry.node.null() || (entry.node.map() && entry.node.map()->empty());
  });
  quote_texts(updated);
  add_config_defaults(updated);
  return updated;
}

std::string config_text(const Node& tree, const std::string& path) {
  const Node ordered = sorted(tree);
  return path.ends_with(".json") ? json_of(ordered, "") + "\n" : to_yaml(ordered);
}

}  // namespace accel
