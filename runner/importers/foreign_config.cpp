#include "runner/importers/foreign_config.h"

#include <algorithm>
#include <cctype>

#include "core/interpolate.h"
#include "core/scalar.h"
#include "core/schema_fields.h"
#include "core/utf8.h"

namespace accel {
namespace {

std::string small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_among(std::string_view words, const std::string& word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

/// The value of a dotted key, made where it is not there yet.
Node& value_at(Node& tree, const std::string& target) {
  Node* node = &tree;
  for (size_t begin = 0; begin <= target.size();) {
    const size_t end = std::min(target.find('.', begin), target.size());
    const std::string word = target.substr(begin, end - begin);
    if (!node->map()) node->value = Node::Map{};
    Node::Entry* entry = node->find(word);
    if (!entry) {
      node->map()->push_back({word, {}, {}});
      entry = &node->map()->back();
    }
    node = &entry->node;
    begin = end + 1;
  }
  return *node;
}

}  // namespace

bool asks_nothing(const Node& value, std::string_view neutral) {
  if (const Scalar* scalar = value.scalar()) {
    const std::string word = small_letters(scalar->text);
    if (word.empty() || word == "none" || is_among(neutral, word)) return true;
    const auto number = parse_number({scalar->text}).value;
    return number && is_among(neutral, show_number(*number));
  }
  if (const Node::List* list = value.list()) {
    return std::all_of(list->begin(), list->end(),
                       [&](const Node& item) { return asks_nothing(item, neutral); });
  }
  if (const Node::Map* map = value.map()) {
    return std::all_of(map->begin(), map->end(),
                       [&](const Node::Entry& entry) { return asks_nothing(entry.node, neutral); });
  }
  return true;
}

std::string short_value(const Node& value) {
  constexpr size_t kWidest = 60;
  std::string text = detail::inline_text(value);
  if (text.size() > kWidest) {
    size_t end = kWidest;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // no half characters
    text = text.substr(0, end) + "...";
  }
  return printable(text);
}

const Node::Entry* ForeignConfig::find(const std::string& key) const {
  const Node::Entry* entry = tree_.find(key);
  return entry && !asks_nothing(entry->node, "") ? entry : nullptr;
}

std::optional<std::string> ForeignConfig::text(const std::string& key) const {
  const Node::Entry* entry = find(key);
  if (!entry || !entry->node.scalar()) return std::nullopt;
  return entry->node.scalar()->text;
}

std::optional<double> ForeignConfig::number(const std::string& key) const {
  const std::optional<std::string> found = text(key);
  return found ? parse_number({*found}).value : std::nullopt;
}

bool ForeignConfig::truth(const std::string& key) const {
  const std::optional<std::string> found = text(key);
  return found && is_among("true yes on 1 auto", small_letters(*found));
}

bool ForeignConfig::has(const std::string& target) const {
  const Node* node = &out_.recipe;
  for (size_t begin = 0; begin <= target.size();) {
    const size_t end = std::min(target.find('.', begin), target.size());
    const Node::Entry* entry = node->find(target.substr(begin, end - begin));
    if (!entry) return false;
    node = &entry->node;
    begin = end + 1;
  }
  return true;
}

void ForeignConfig::take(const std::string& key) {
  if (tree_.find(key) && settled_.insert(key).second) out_.taken.push_back(prefix_ + key);
}

void ForeignConfig::set(const std::string& target, Node value, const std::string& key) {
  const Node::Entry* entry = tree_.find(key);
  value.where = entry ? entry->where : Span{};
  value_at(out_.recipe, target) = std::move(value);
  take(key);
}

void ForeignConfig::set_text(const std::string& target, const std::string& text,
                             const std::string& key) {
  set(target, escape_references(scalar_node(text)), key);
}

void ForeignConfig::ignore(const std::string& key) {
  if (tree_.find(key) && settled_.insert(key).second) out_.idle.push_back(prefix_ + key);
}

void ForeignConfig::leave(const std::string& key, const std::string& reason) {
  const Node::Entry* entry = tree_.find(key);
  settled_.insert(key);
  out_.left.push_back({prefix_ + key, entry ? entry->where : tree_.where, reason});
}

void ForeignConfig::leave_inside(const std::string& key, const Node::Entry& entry,
                                 const std::string& reason) {
  if (asks_nothing(entry.node, "")) return out_.idle.push_back(prefix_ + key + '.' + entry.key);
  out_.left.push_back({prefix_ + key + '.' + entry.key, entry.where, reason});
}

void ForeignConfig::settle_one(const Node::Entry& entry, const ForeignKey& row) {
  if (asks_nothing(entry.node, row.neutral)) {
    settled_.insert(entry.key);
    out_.idle.push_back(prefix_ + entry.key);
    return;
  }
  const Scalar* scalar = entry.node.scalar();
  switch (row.use) {
    case ForeignKey::Use::kCopy:
      // Python's switches begin with a capital.
      if (scalar && (scalar->text == "True" || scalar->text == "False")) {
        return set_text(row.says, small_letters(scalar->text), entry.key);
      }
      if (scalar) return set_text(row.says, scalar->text, entry.key);
      break;
    case ForeignKey::Use::kSteps:
      if (scalar) return set_text(row.says, scalar->text + " steps", entry.key);
      break;
    case ForeignKey::Use::kIdle:
      settled_.insert(entry.key);
      out_.idle.push_back(prefix_ + entry.key);
      return;
    case ForeignKey::Use::kNot:
      return leave(entry.key, row.says);
    case ForeignKey::Use::kRead:
      break;
  }
  leave(entry.key, "its value, " + short_value(entry.node) + ", is none that is known");
}

void ForeignConfig::settle(std::span<const ForeignKey> keys) {
  if (!tree_.map()) return;
  for (const Node::Entry& entry : *tree_.map()) {
    if (settled_.contains(entry.key)) continue;
    const auto row = std::find_if(keys.begin(), keys.end(),
                                  [&](const ForeignKey& key) { return entry.key == key.name; });
    if (row != keys.end()) {
      settle_one(entry, *row);
    } else {
      leave(entry.key, "this importer does not know the key");
    }
  }
}

}  // namespace accel
