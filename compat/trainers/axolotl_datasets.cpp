#include "compat/trainers/axolotl_datasets.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/data_readings.h"
#include "compat/trainers/preference_readings.h"
#include "compat/trainers/shared_readings.h"
#include "core/base/convert_command.h"
#include "core/base/text.h"

namespace accel {
namespace {

struct AxolotlDataset {
  const Node& node;

  std::string word(const char* key) const {
    const Node::Entry* entry = node.find(key);
    return entry && entry->node.scalar() ? entry->node.scalar()->text : std::string();
  }
};

/// axolotl's roles of messages, by their names in the data.
constexpr std::pair<const char*, const char*> kAxolotlRoles[] = {{"human", "user"},
                                                                 {"gpt", "assistant"}};

/// The roles of a dataset, `{user: [human], assistant: gpt}`, by their names in the data.
std::map<std::string, std::string> axolotl_roles(const AxolotlDataset& dataset) {
  std::map<std::string, std::string> roles;
  const Node::Entry* given = dataset.node.find("roles");
  if (!given || !given->node.map()) {
    for (const auto& [theirs, role] : kAxolotlRoles) roles[theirs] = role;
    return roles;
  }
  for (const Node::Entry& role : *given->node.map()) {
    const Node::List one = {role.node};
    for (const Node& name : role.node.list() ? *role.node.list() : one) {
      if (name.scalar() && name.scalar()->text != role.key) roles[name.scalar()->text] = role.key;
    }
  }
  return roles;
}

/// Keys and roles of messages. Why they have no counterpart, or "".
std::string read_message_keys(const AxolotlDataset& dataset, DataFile& file) {
  file.role_key = dataset.word("message_field_role");
  file.content_key = dataset.word("message_field_content");
  if (const Node::Entry* mappings = dataset.node.find("message_property_mappings")) {
    const AxolotlDataset keys{mappings->node};
    if (file.role_key.empty()) file.role_key = keys.word("role");
    if (file.content_key.empty()) file.content_key = keys.word("content");
    for (const Node::Entry& entry : keys.node.map() ? *keys.node.map() : Node::Map{}) {
      if (entry.key == "role" || entry.key == "content") continue;
      return text("the messages have a '{}', and their role and content are read only", entry.key);
    }
  }
  if (!file.role_key.empty() || dataset.node.find("roles")) file.roles = axolotl_roles(dataset);
  const Node::Entry* trained = dataset.node.find("roles_to_train");
  if (!trained) return {};
  const Node::List one = {trained->node};
  for (const Node& role : trained->node.list() ? *trained->node.list() : one) {
    if (role.scalar() && (role.scalar()->text == "assistant" || role.scalar()->text == "gpt")) {
      continue;
    }
    return "'roles_to_train' has another role than the assistant's, the only one that is trained "
           "on";
  }
  return {};
}

/// Of preference pairs, axolotl's type of messages is read. Why it has no counterpart, or "".
std::string read_axolotl_pairs(TrainerConfig& config, const AxolotlDataset& dataset,
                               DataFile& file) {
  const std::string type = dataset.word("type");
  file.kind = DataFile::Kind::kPreference;
  file.path = dataset.word("path");
  file.split = dataset.word("split");
  file.subset = dataset.word("name");
  file.field = dataset.word("field_messages");
  if (file.field.empty()) file.field = "messages";
  file.max_length = config.text("sequence_len").value_or("512");
  for (const char* answer : {"chosen", "rejected"}) {
    const std::string field = dataset.word((std::string("field_") + answer).c_str());
    if (field.empty() || field == answer) continue;
    return text("its '{}' is '{}': write it in 'data.train' as type preference", answer, field);
  }
  if (type == "chat_template.default" || type == "chat_template") {
    return read_message_keys(dataset, file);
  }
  return text("'{}' is of type '{}': write its pairs in 'data.train' as type preference", file.path,
              type.empty() ? "a section" : type);
}

/// Of labelled answers, axolotl's types read texts of `prompt` and `completion`, which they put
/// into a template of their name. Why a dataset has no counterpart, or "".
std::string read_axolotl_unpaired(TrainerConfig& config, const AxolotlDataset& dataset,
                                  DataFile& file) {
  const std::string type = dataset.word("type");
  file.kind = DataFile::Kind::kUnpaired;
  file.path = dataset.word("path");
  file.split = dataset.word("split");
  file.subset = dataset.word("name");
  file.max_length = config.text("sequence_len").value_or("512");
  file.texts_as_messages = true;
  for (const char* templated : {"chatml.ultra", "llama3.ultra"}) {
    if (type != templated) continue;
    config.remark(text("datasets: the template of '{}' is the tokenizer's chat template", type));
    return {};
  }
  return text("'{}' is of type '{}': write its answers in 'data.train' as type unpaired", file.path,
              type.empty() ? "a section" : type);
}

/// Why a dataset has no counterpart, or "".
std::string read_axolotl_dataset(TrainerConfig& config, const AxolotlDataset& dataset,
                                 DataFile& file) {
  if (const auto method = preference_method(ascii_lower(config.text("rl").value_or("")))) {
    if (method->is_unpaired()) return read_axolotl_unpaired(config, dataset, file);
    return read_axolotl_pairs(config, dataset, file);
  }
  const std::string type = dataset.word("type");
  file.path = dataset.word("path");
  file.split = dataset.word("split");
  file.subset = dataset.word("name");
  if (type != "chat_template" && type != "completion") {
    const std::string reason =
        text("'{}' is of type '{}': write its conversations in 'data.train' as type chat",
             file.path, type.empty() ? "a section" : type);
    if (!file.path.ends_with(".parquet")) return reason;
    return text("{}, converted by: {}", reason, convert_command(file.path, ".jsonl"));
  }
  const bool chat = type == "chat_template";
  file.kind = chat                            ? DataFile::Kind::kChat
              : config.flag("sample_packing") ? DataFile::Kind::kWindows
                                              : DataFile::Kind::kDocuments;
  file.field = dataset.word(chat ? "field_messages" : "field");
  file.max_length = config.text("sequence_len").value_or("512");
  file.pack = chat && config.flag("sample_packing");
  file.answers_only = !config.flag("train_on_inputs");
  if (is_local_path(file.path) && !is_text_file(file.path) && !file.path.ends_with(".parquet")) {
    return text("'{}' is no file of JSON Lines", file.path);
  }
  if (chat) return read_message_keys(dataset, file);
  if (file.kind == DataFile::Kind::kDocuments && !file.path.ends_with(".txt")) {
    config.remark(
        "datasets: axolotl divides a text of type completion that is longer than 'sequence_len' "
        "into several samples; here it is cut");
  }
  return {};
}

}  // namespace

void read_axolotl_datasets(TrainerConfig& config, const char* key, const char* target) {
  const Node::Entry* datasets = config.find(key);
  const Node::List* list = datasets ? datasets->node.list() : nullptr;
  if (!list) return;
  constexpr std::string_view kRead =
      "path type split field field_messages ds_type name message_property_mappings "
      "message_field_role message_field_content roles roles_to_train field_chosen field_rejected";
  std::vector<DataFile> files;
  for (const Node& item : *list) {
    DataFile file;
    const std::string reason = read_axolotl_dataset(config, {item}, file);
    if (!reason.empty()) return config.skip(key, reason);
    files.push_back(std::move(file));
    for (const Node::Entry& entry : item.map() ? *item.map() : Node::Map{}) {
      const bool usual =
          entry.key == "train_on_eos" && AxolotlDataset{item}.word("train_on_eos") == "turn";
      if (!usual && !has_word(kRead, entry.key))
        config.skip_nested(key, entry, "it has no counterpart");
    }
  }
  const bool windows = !files.empty() && files.front().kind == DataFile::Kind::kWindows;
  if (windows) {
    config.remark("sample_packing: texts are concatenated, and attention crosses their borders");
  }
  if (!files.empty() && !windows && files.front().kind != DataFile::Kind::kDocuments &&
      config.text("excess_length_strategy") != "truncate") {
    config.remark("sequence_len: axolotl leaves out longer samples by default; here they are cut");
  }
  set_datasets(config, target, files, key);
  if (target != std::string("data.train")) return;
  if (files.size() == 1) {
    config.set_text(length_key(files.front()), files.front().max_length, "sequence_len");
  }
  for (const char* used : {"sequence_len", "sample_packing", "train_on_inputs"}) config.take(used);
  set_held_out(config, "val_set_size");
}

void read_axolotl_shuffle(TrainerConfig& config) {
  constexpr auto kKey = "shuffle_merged_datasets";
  const auto shuffle = config.text(kKey);
  if (!shuffle || (!config.flag("streaming") && !config.find("pretraining_dataset"))) return;
  config.set_text("data.loader.shuffle", ascii_lower(*shuffle), kKey);
}

}  // namespace accel
