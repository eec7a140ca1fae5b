#include "compat/accelerate/config_questions.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/accelerate/config_file.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

/// A default value; `text`: quoted, since PyYAML reads some words as booleans.
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

/// Keys with values that PyYAML would read as booleans.
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
  const bool single = type && is_neutral(type->node, kOff);
  for (const DefaultValue& option : kConfigDefaults) {
    if (tree.find(option.key)) continue;
    const bool one = single && std::string_view(option.key) == "num_processes";
    put(tree, option.key, one ? "1" : option.value, option.text);
  }
}

void remove_key(Node& tree, std::string_view key) {
  std::erase_if(*tree.map(), [&](const Node::Entry& entry) { return entry.key == key; });
}

bool is_on(const Node& value, const std::string& key, Diagnostics& problems) {
  return read_bool(value, key_with_value(key, ": ", value), problems).value_or(false);
}

/// Renames `fp16` and `dynamo_backend`.
void rename_old_keys(Node& tree, Diagnostics& problems) {
  if (const Node::Entry* old = tree.find("fp16")) {
    const bool on = is_on(old->node, "fp16", problems);
    remove_key(tree, "fp16");
    if (on && !tree.find("mixed_precision")) put(tree, "mixed_precision", "fp16");
  }
  if (const Node::Entry* old = tree.find("dynamo_backend")) {
    const Node backend = old->node;
    remove_key(tree, "dynamo_backend");
    if (!is_neutral(backend, kOff) && !tree.find("dynamo_config")) {
      tree.map()->push_back(
          {"dynamo_config", {}, {Node::Map{{"dynamo_backend", {}, backend}}, {}}});
    }
  }
}

/// Quotes texts for PyYAML.
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
  std::vector<std::string> names = key_names(config_keys());
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with("gradient_") || name == "ipex_config";
  });
  for (const Node::Entry& entry : *tree.map()) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    problems.error(entry.where, text("Accelerate's config has no key '{}'", entry.key),
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

constexpr int64_t kMostAsked = 65536;

class Questions {
 public:
  Questions(std::istream& in, std::ostream& out) : in_(in), out_(out) {}

  /// Asks until `check` returns no error for the answer.
  std::string text(const std::string& question, const std::string& standard,
                   const std::function<std::string(const std::string&)>& check) {
    for (;;) {
      out_ << question << (standard.empty() ? ": " : " [" + standard + "]: ") << std::flush;
      std::string answer;
      if (!std::getline(in_, answer)) {
        out_ << '\n';
        throw Error(ExitCode::kRecipe, "the answers ended before the last question",
                    "answer all of them; nothing was written");
      }
      answer = trimmed(answer);
      if (answer.empty()) answer = standard;
      const std::string error = check(answer);
      if (error.empty()) return answer;
      out_ << "  " << error << '\n';
    }
  }

  int64_t number(const std::string& question, std::optional<int64_t> standard, int64_t least,
                 int64_t most, int64_t multiple_of = 1) {
    const auto check = [&](const std::string& answer) -> std::string {
      const auto value = parse_integer({answer}).value;
      if (!value || *value < least || *value > most) {
        return accel::text("a number from {} to {}", least, most);
      }
      if (*value % multiple_of == 0) return "";
      return accel::text("a multiple of {}, the number of machines", multiple_of);
    };
    const std::string proposed = standard ? std::to_string(*standard) : "";
    return *parse_integer({text(question, proposed, check)}).value;
  }

  void print(const std::string& remark) { out_ << "  " << remark << '\n'; }

  bool yes(const std::string& question, const char* standard = "no") {
    const auto check = [](const std::string& answer) -> std::string {
      return is_yes(answer) || is_no(answer) ? "" : "yes or no";
    };
    return is_yes(text(question + " (yes/no)", standard, check));
  }

  /// One of `words`, of which the first is the default.
  std::string word(const std::string& question, const std::vector<std::string>& words) {
    return text(question + " (" + joined(words, "/") + ")", words.front(),
                [&](const std::string& answer) -> std::string {
                  const bool known = std::find(words.begin(), words.end(), answer) != words.end();
                  return known ? "" : accel::text("one of {}", joined(words, ", "));
                });
  }

 private:
  static bool is_yes(const std::string& answer) {
    return ascii_lower(answer) == "yes" || ascii_lower(answer) == "y";
  }
  static bool is_no(const std::string& answer) {
    return ascii_lower(answer) == "no" || ascii_lower(answer) == "n";
  }

  std::istream& in_;
  std::ostream& out_;
};

std::string check_address(const std::string& answer) {
  if (answer.empty()) return "an address or a host name, such as 10.0.0.1";
  const bool blank = answer.find_first_of(" \t'\"") != answer.npos;
  return blank ? "one address or host name, without blanks and quotes" : "";
}

std::string check_precision(const std::string& answer) {
  return has_word("no fp16 bf16 fp8", answer) ? "" : "no, fp16, bf16 or fp8";
}

/// The error of a list of GPUs for a number of processes, one GPU each.
std::string check_gpus(const std::string& answer, int64_t processes) {
  if (answer == "all") return "";
  std::set<int64_t> ids;
  std::istringstream words(answer);
  int64_t count = 0;
  for (std::string word; std::getline(words, word, ','); ++count) {
    const auto id = parse_integer({trimmed(word)}).value;
    if (!id || *id < 0) return "all, or numbers from 0 such as 0,1";
    if (!ids.insert(*id).second) return "each number once";
  }
  if (count >= processes) return "";
  return text("at least {} numbers: one per process of this machine", processes);
}

void ask_gpus(Questions& questions, ConfigAnswers& answers) {
  const int64_t here = answers.num_processes / answers.num_machines;
  const std::string ids =
      questions.text("GPUs of this machine, by number", "all",
                     [&](const std::string& answer) { return check_gpus(answer, here); });
  answers.gpu_ids.clear();
  for (const char c : ids) {
    if (c != ' ' && c != '\t') answers.gpu_ids += c;
  }
}

/// The GPUs of this machine times the machines; null below 2.
std::optional<int64_t> proposed_gpus(Questions& questions, int64_t machines, int64_t gpus) {
  if (gpus == 0) questions.print("this machine has no GPU: the config is for another machine");
  const int64_t all = gpus * machines;
  if (gpus > 0 && all < 2) questions.print("this machine has one GPU: answer 'one' to use it");
  if (all < 2) return std::nullopt;
  return std::min(all, kMostAsked / machines * machines);
}

void ask_machines(Questions& questions, ConfigAnswers& answers, int64_t gpus_of_this) {
  answers.num_machines = questions.number("Number of machines", 1, 1, kMostAsked);
  const int64_t machines = answers.num_machines;
  if (machines > 1) {
    answers.machine_rank = questions.number("Rank of this machine, from 0", 0, 0, machines - 1);
    answers.main_process_ip = questions.text("Address of machine 0", "", check_address);
    answers.main_process_port = questions.number("Free port of machine 0", 29500, 1, 65535);
  }
  const bool gpus = answers.kind == ConfigKind::kMultiGpu;
  // Accelerate refuses MULTI_GPU with one process.
  answers.num_processes = questions.number(
      gpus ? "Number of GPUs, over all machines" : "Number of processes, over all machines",
      gpus ? proposed_gpus(questions, machines, gpus_of_this) : 2 * machines,
      gpus ? std::max<int64_t>(2, machines) : machines, kMostAsked / machines * machines, machines);
  answers.debug = questions.yes("Check the shapes and types of collectives on all ranks");
}

std::string check_shards(const std::string& answer, int64_t processes) {
  if (answer == "auto") return "";
  const auto ranks = parse_integer({answer}).value;
  const bool divides = ranks && *ranks > 0 && processes % *ranks == 0;
  return divides ? "" : text("auto, or a divisor of {}, the number of processes", processes);
}

void ask_sharding(Questions& questions, ConfigAnswers& answers) {
  ShardingAnswers& sharding = answers.sharding;
  const std::string stage = questions.word(
      "Sharding (FSDP, ZeRO): none, or divide over ranks the optimizer state (1), gradients too "
      "(2), parameters too (3)",
      {"none", "1", "2", "3"});
  if (stage == "none") return;
  sharding.stage = stage.front() - '0';
  sharding.dp_shard = questions.text(
      "Ranks that share one copy of the model", "auto",
      [&](const std::string& answer) { return check_shards(answer, answers.num_processes); });
  if (sharding.stage == 3) {
    sharding.reshard_after_forward =
        questions.yes("Free the parameters of a block after its forward pass", "yes");
  }
  sharding.param_dtype = questions.word("Type of gathered weights; auto: by the mixed precision",
                                        {"auto", "fp32", "bf16", "fp16"});
  sharding.reduce_dtype =
      questions.word("Type of gradients in the reduction", {"fp32", "bf16", "fp16"});
  sharding.min_num_params = questions.number(
      "Least number of parameters of a block that is gathered alone", 0, 0, int64_t{1} << 40);
  sharding.state_dict =
      questions.word("Checkpoints: a file of each rank, or of all ranks", {"sharded", "full"});
}

Node section(std::initializer_list<std::pair<const char*, std::string>> values) {
  Node out = {Node::Map{}, {}};
  for (const auto& [key, value] : values) put(out, key, value);
  return out;
}

/// The recipe's section of the backend.
Node fp8_of(const ConfigAnswers& answers) {
  if (answers.fp8_backend != "TE") return section({{"recipe", "tensorwise"}});
  Node out = section({{"recipe", "delayed"}});
  out.map()->push_back({"filter", {}, {Node::List{}, {}}});
  return out;
}

/// A config with the recipe's keys.
Node sharded_tree(const ConfigAnswers& answers) {
  const ShardingAnswers& sharding = answers.sharding;
  const bool gpus = answers.kind == ConfigKind::kMultiGpu;
  Node fsdp = section({{"stage", std::to_string(sharding.stage)},
                       {"param_dtype", sharding.param_dtype},
                       {"reduce_dtype", sharding.reduce_dtype},
                       {"min_num_params", std::to_string(sharding.min_num_params)},
                       {"state_dict", sharding.state_dict}});
  if (sharding.stage == 3) {
    put(fsdp, "reshard_after_forward", sharding.reshard_after_forward ? "true" : "false");
  }
  Node accelerator = section({{"device", gpus ? "cuda" : "cpu"},
                              {"num_processes", std::to_string(answers.num_processes)},
                              {"num_machines", std::to_string(answers.num_machines)},
                              {"machine_rank", std::to_string(answers.machine_rank)},
                              {"debug", answers.debug ? "collectives" : "no"},
                              {"mixed_precision", answers.mixed_precision}});
  if (gpus) put(accelerator, "gpu_ids", answers.gpu_ids, true);
  if (answers.num_machines > 1) {
    put(accelerator, "main_process_ip", answers.main_process_ip, true);
    put(accelerator, "main_process_port", std::to_string(answers.main_process_port));
  }
  if (answers.mixed_precision == "fp8") accelerator.map()->push_back({"fp8", {}, fp8_of(answers)});
  accelerator.map()->push_back({"fsdp", {}, std::move(fsdp)});
  accelerator.map()->push_back({"parallelism", {}, section({{"dp_shard", sharding.dp_shard}})});
  Node tree = {Node::Map{}, {}};
  tree.map()->push_back({"accelerator", {}, std::move(accelerator)});
  return tree;
}

}  // namespace

Node config_tree(const ConfigAnswers& answers) {
  if (answers.sharding.stage > 0) return sharded_tree(answers);
  const auto word = [](bool on) { return on ? "true" : "false"; };
  const bool gpus = answers.kind == ConfigKind::kMultiGpu;
  const bool one = answers.kind == ConfigKind::kSingleProcess;
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
  if (answers.mixed_precision == "fp8") {
    tree.map()->push_back({"fp8_config", {}, section({{"backend", answers.fp8_backend}})});
  }
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
    problems.error(tree.where, "the config has sections of a recipe, not keys of Accelerate",
                   "there is nothing to update");
    return tree;
  }
  check_keys(tree, problems);
  if (!tree.find("distributed_type")) {
    problems.error(tree.where, "'distributed_type' is missing",
                   "write 'distributed_type: NO' or 'distributed_type: MULTI_CPU'");
  }
  const Node::Entry* environment = tree.find("compute_environment");
  if (environment && !is_neutral(environment->node, "local_machine")) {
    CompatLayer(problems).refuse(environment->node.where,
                                 key_with_value("compute_environment", ": ", environment->node),
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

ConfigAnswers ask_config(std::istream& in, std::ostream& out, int64_t gpus) {
  Questions questions(in, out);
  ConfigAnswers answers;
  const std::string kind =
      questions.text("Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu)", "one",
                     [](const std::string& answer) -> std::string {
                       const bool known = answer == "one" || answer == "gpu" || answer == "cpu";
                       return known ? "" : "one, gpu or cpu";
                     });
  if (kind == "one") {
    answers.use_cpu = questions.yes("Train on the CPU even with a GPU");
    if (!answers.use_cpu) ask_gpus(questions, answers);
  } else {
    answers.kind = kind == "gpu" ? ConfigKind::kMultiGpu : ConfigKind::kMultiCpu;
    ask_machines(questions, answers, gpus);
    if (kind == "gpu") ask_gpus(questions, answers);
  }
  answers.mixed_precision =
      questions.text("Mixed precision: no, fp16, bf16 or fp8", "no", check_precision);
  if (answers.mixed_precision == "fp8") {
    answers.fp8_backend = questions.word(
        "Scales of fp8: of each tensor, as torchao (AO), or of earlier steps, as Transformer "
        "Engine "
        "(TE)",
        {"AO", "TE"});
  }
  if (kind != "one") ask_sharding(questions, answers);
  return answers;
}

}  // namespace accel
