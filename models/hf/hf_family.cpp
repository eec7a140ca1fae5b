#include "models/hf/hf_family.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "formats/checksum.h"
#include "kernels/memory/skip_init.h"

namespace accel {
namespace {

constexpr auto kNotBuilt = "this model does not do";

const FieldInfo* field_named(const std::vector<FieldInfo>& fields, const std::string& name) {
  for (const FieldInfo& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

bool is_auto(const Node& node) {
  return node.null() || (node.scalar() && node.scalar()->text == "auto");
}

/// Extends the permitted values of `field` by those of `other`, an option of the same name.
void widen(FieldInfo& field, const FieldInfo& other) {
  if (field.json != other.json) {
    field.json = std::string("\"anyOf\": [{").append(field.json).append("}, {").append(other.json);
    field.json.append("}]");
  }
  if (field.rule != other.rule) field.rule.clear();
  if (field.type.size() < other.type.size()) field.type = other.type;  // the one with 'auto'
}

/// Whether it is the `quantization` of a folder with unquantized weights.
bool is_switched_off(const Node::Entry& option) {
  if (option.key != "quantization") return false;
  const Node::Entry* type = option.node.find("type");
  return type && type->node.scalar() && type->node.scalar()->text == "none";
}

/// The node at which problems of the folder are reported.
const Node& weights_of(const Node& given) {
  return given.find("weights")->node;
}

}  // namespace

const HfFamily::Table* HfFamily::of_model_type(const std::string& model_type) {
  for (const HfFamily* family = chain_; family; family = family->next_) {
    if (family->table_.reads(model_type)) return &family->table_;
  }
  return nullptr;
}

const HfFamily::Table* HfFamily::of_component(const std::string& component) {
  for (const HfFamily* family = chain_; family; family = family->next_) {
    if (family->table_.component == component) return &family->table_;
  }
  return nullptr;
}

std::vector<std::string> HfFamily::components() {
  std::set<std::string> names;
  for (const HfFamily* family = chain_; family; family = family->next_) {
    names.insert(family->table_.component);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> HfFamily::gguf_components() {
  std::vector<std::string> names = components();
  std::erase_if(names, [](const std::string& name) { return !of_component(name)->gguf; });
  return names;
}

std::vector<FieldInfo> HfFamily::options() {
  std::map<std::string, FieldInfo> all;
  std::map<std::string, std::string> owners;
  for (const std::string& component : components()) {
    for (FieldInfo field : of_component(component)->options()) {
      if (field.name == "weights") continue;
      std::string& models = owners[field.name];
      models.append(models.empty() ? "" : ", ").append(component);
      field.fallback.clear();
      for (FieldInfo& inner : field.fields) inner.fallback.clear();
      const auto [known, fresh] = all.emplace(field.name, field);
      if (!fresh) widen(known->second, field);
    }
  }
  std::vector<FieldInfo> out;
  for (auto& [name, field] : all) {
    field.help.append(" Of ").append(owners[name]).append("; default: as in the folder.");
    out.push_back(std::move(field));
  }
  return out;
}

Node with_folder_options(const Node& given, const Node& folder, const Node& own,
                         const std::vector<FieldInfo>& fields, Reading& reading) {
  const Node& weights = weights_of(given);
  Node out = given;
  for (const Node::Entry& theirs : *folder.map()) {
    if (theirs.key == "weights" || theirs.key == "lora" || is_auto(theirs.node)) continue;
    if (is_switched_off(theirs)) continue;
    const Node::Entry* mine = given.find(theirs.key);
    const Node& value = own.find(theirs.key)->node;
    if (!mine || is_auto(value)) {
      Node node = theirs.node;
      node.where = weights.where;
      if (Node::Entry* entry = out.find(theirs.key)) {
        entry->node = std::move(node);
      } else {
        out.map()->push_back({theirs.key, weights.where, std::move(node)});
      }
      continue;
    }
    const std::string here = detail::inline_text(value), there = detail::inline_text(theirs.node);
    const FieldInfo* field = field_named(fields, theirs.key);
    if (here == there || !field || field->change != Change::kImpossible) continue;
    reading.problems.error(mine->node.where,
                           accel::text("'{}' is {} here and {} in '{}'", theirs.key, here, there,
                                       weights.scalar()->text),
                           "leave it out to take it from the folder");
  }
  return out;
}

std::optional<HfConfig> config_for(const Node& weights, const std::string& folder,
                                   const HfFamily::Table& family, Reading& reading) {
  try {
    HfConfig config(folder);
    const std::string type = config.model_type();
    if (family.reads(type)) return config;
    const HfFamily::Table* other = HfFamily::of_model_type(type);
    reading.problems.error(weights.where,
                           accel::text("'{}' is of a '{}', which the model '{}' is not",
                                       config.path(), type, family.component),
                           other ? accel::text("set 'type: {}'", other->component) : "");
  } catch (const Error& error) {
    reading.problems.error(weights.where, error.what(), error.hint());
  }
  return std::nullopt;
}

int64_t label_count(const HfConfig& config) {
  const auto count = config.values().find("num_labels");
  // As in transformers, which then names the labels anew.
  if (count != config.values().end() && count->is_number_integer()) return count->get<int64_t>();
  const auto labels = config.values().find("id2label");
  const bool named = labels != config.values().end() && labels->is_object();
  return named ? static_cast<int64_t>(labels->size()) : 2;
}

void check_label_order(const std::string& folder, const std::vector<std::string>& labels) {
  if (labels.empty() || SkipInit::is_active()) return;  // those of a checkpoint are the run's
  const HfConfig config(folder);
  const auto named = config.values().find("id2label");
  if (named == config.values().end() || !named->is_object() || named->size() != labels.size()) {
    return;
  }
  std::vector<std::string> theirs;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto name = named->find(std::to_string(i));
    if (name == named->end() || !name->is_string()) return;
    theirs.push_back(name->get<std::string>());
  }
  if (theirs == labels) return;
  const std::set<std::string> ours(labels.begin(), labels.end());
  if (std::set<std::string>(theirs.begin(), theirs.end()) == ours) {
    throw DataError(
        accel::text("the head of '{}' has the labels {}, and the data has {}", folder,
                    quoted_list(theirs), quoted_list(labels)),
        accel::text("set 'labels: [{}]' of the data, the order of the head", joined(theirs)));
  }
  if (theirs.front().starts_with("LABEL_")) return;  // transformers' names of unnamed classes
  warn(
      accel::text("the labels of '{}' are {}, and those of the data {}: a head of the folder was "
                  "trained for the others",
                  folder, quoted_list(theirs), quoted_list(labels)));
}

void write_labels(int64_t classes, nlohmann::json& config) {
  config.erase("num_labels");  // those of `id2label`; of a folder it would win over them
  const auto present = config.find("id2label");
  const auto wanted = static_cast<size_t>(classes);
  if (present != config.end() && present->is_object() && present->size() == wanted) return;
  nlohmann::json names = nlohmann::json::object(), numbers = nlohmann::json::object();
  for (int64_t i = 0; i < classes; ++i) {
    const std::string name = std::string("LABEL_").append(std::to_string(i));
    names[std::to_string(i)] = name;
    numbers[name] = i;
  }
  config["id2label"] = names;
  config["label2id"] = numbers;
}

std::string weights_fingerprint(const Node& resolved) {
  std::string out;
  if (!resolved.map()) return out;
  for (const Node::Entry& entry : *resolved.map()) {
    const Scalar* path = entry.node.scalar();
    if (!path) {
      out += weights_fingerprint(entry.node);
    } else if (entry.key == "weights" && !path->text.empty()) {
      out += hf_weights_fingerprint(path->text);
    } else if (entry.key == "file") {
      out += hex_text(checksum_of(map_file(path->text).view));
    }
  }
  return out;
}

void report_config(HfConfig& config, const HfConfigSections& read, const Node& weights,
                   Reading& reading) {
  if (!read.encoder_decoder) config.want("is_encoder_decoder", false, kNotBuilt);
  config.want("pruned_heads", nlohmann::json::object(), kNotBuilt);
  if (!read.quantized) config.want("quantization_config", nullptr, kNotBuilt);
  config.ignore({"problem_type"});  // of classifiers, which read it
  for (const std::string& problem : config.problems()) {
    reading.problems.error(weights.where, problem);
  }
  HfConfig unknown = config;
  unknown.refuse_unknown_keys();
  for (size_t i = config.problems().size(); i < unknown.problems().size(); ++i) {
    reading.problems.error(weights.where, unknown.problems()[i],
                           "delete the key from the file if the model does not depend on it");
  }
}

}  // namespace accel
