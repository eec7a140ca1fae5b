#include "compat/accelerate/accelerate_keys.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/recipe/interpolate.h"

namespace accel {
namespace {

std::string location_prefix(const Span& where) {
  const Source* source = where.source.get();
  if (!source) return {};
  if (source->kind == Source::Kind::kArgument) {
    return text("argument {}: ", source->argument);
  }
  if (source->kind == Source::Kind::kEnvironment) return text("environment {}: ", source->path);
  return text("{}:{}:{}: ", source->path, where.line, where.column);
}

}  // namespace

bool has_word(std::string_view words, const std::string& word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

bool is_neutral(const Node& value, std::string_view neutral) {
  if (const Scalar* scalar = value.scalar()) {
    return scalar->text.empty() || has_word(neutral, ascii_lower(scalar->text));
  }
  if (const Node::List* list = value.list()) {
    return std::all_of(list->begin(), list->end(),
                       [](const Node& item) { return is_neutral(item, {}); });
  }
  return value.null() || value.map()->empty();
}

std::optional<bool> read_bool(const Node& value, const std::string& shown, Diagnostics& problems) {
  if (const Scalar* scalar = value.scalar()) {
    const std::string word = ascii_lower(scalar->text);
    if (has_word("true yes on y t 1", word)) return true;
    if (has_word("false no off n f 0", word)) return false;
  }
  problems.error(value.where, text("'{}' is neither true nor false", shown));
  return std::nullopt;
}

std::string key_with_value(std::string_view name, std::string_view between, const Node& value) {
  const Scalar* scalar = value.scalar();
  std::string out(name);
  if (scalar) out.append(between).append(scalar->text);
  return out;
}

const CompatKey* find_compat_key(std::span<const CompatKey> words, std::string_view name) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const CompatKey& word) { return word.name == name; });
  return found == words.end() ? nullptr : &*found;
}

std::vector<std::string> key_names(std::span<const CompatKey> words) {
  std::vector<std::string> names;
  for (const CompatKey& word : words) names.emplace_back(word.name);
  return names;
}

const Node* CompatLayer::find(std::string_view key) const {
  const Node* node = &tree_;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const Node::Entry* entry = node->find(key.substr(begin, end - begin));
    if (!entry) return nullptr;
    node = &entry->node;
    begin = end + 1;
  }
  return node;
}

void CompatLayer::set(std::string_view key, Node value) {
  const Span where = value.where;
  Node* section = &tree_;
  for (size_t dot; (dot = key.find('.')) != key.npos; key.remove_prefix(dot + 1)) {
    const std::string name(key.substr(0, dot));
    Node::Entry* entry = section->find(name);
    if (!entry) {
      section->map()->push_back({name, where, {Node::Map{}, where}});
      entry = &section->map()->back();
    }
    section = &entry->node;
  }
  const std::string option(key);
  value = escape_references(std::move(value));
  if (Node::Entry* old = section->find(option)) {
    *old = {option, where, std::move(value)};
  } else {
    section->map()->push_back({option, where, std::move(value)});
  }
}

void CompatLayer::refuse(const Span& where, const std::string& shown, std::string_view reason,
                         std::string_view hint) {
  problems_.error(where, text("'{}' is not supported: {}", shown, reason), std::string(hint));
}

void CompatLayer::warn(const Span& where, const std::string& message) {
  warnings_.push_back(location_prefix(where) + message);
}

void CompatLayer::drop_lone_address() {
  Node::Entry* section = tree_.find("accelerator");
  if (!section) return;
  const Node::Entry* machines = section->node.find("num_machines");
  const Node::Entry* address = section->node.find("main_process_ip");
  if (!machines || !address || !machines->node.scalar() || machines->node.scalar()->text != "1") {
    return;
  }
  warn(address->node.where, "'main_process_ip' has no effect on one machine");
  std::erase_if(*section->node.map(),
                [](const Node::Entry& entry) { return entry.key == "main_process_ip"; });
}

void CompatLayer::apply(const CompatKey& key, const Node& value, const std::string& shown) {
  using Effect = CompatKey::Effect;
  if (key.effect == Effect::kDetail || is_neutral(value, key.neutral)) return;
  switch (key.effect) {
    case Effect::kSets:
      set(key.target, value);
      return;
    case Effect::kTurnsOn:
      if (read_bool(value, shown, problems_).value_or(false)) {
        const size_t equals = key.target.find('=');
        set(key.target.substr(0, equals),
            scalar_node(std::string(key.target.substr(equals + 1)), false, value.where));
      }
      return;
    case Effect::kPrecision: {
      Node lower = value;
      if (Scalar* scalar = lower.scalar()) scalar->text = ascii_lower(scalar->text);
      set(key.target, std::move(lower));
      return;
    }
    case Effect::kRefused:
      refuse(value.where, shown, key.target, key.hint);
      return;
    case Effect::kIdle:
      warn(value.where, text("'{}' has no effect: {}", shown, key.target));
      return;
    case Effect::kDetail:
    case Effect::kPlain:
      return;
  }
}

}  // namespace accel
