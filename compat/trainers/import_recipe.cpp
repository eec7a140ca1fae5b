#include "compat/trainers/import_recipe.h"

#include <algorithm>

#include "compat/accelerate/accelerate_keys.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/schema_fields.h"
#include "core/recipe/source.h"

namespace accel {
namespace {

/// The value of a dotted key, created when missing.
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

/// The usual order of sections.
constexpr const char* kOrder[] = {"name", "vars",       "seed",      "model",    "task",
                                  "data", "optimizer",  "scheduler", "train",    "accelerator",
                                  "eval", "checkpoint", "callbacks", "trackers", "log"};

size_t rank_of(const std::string& key) {
  const auto found = std::find(std::begin(kOrder), std::end(kOrder), key);
  return static_cast<size_t>(found - std::begin(kOrder));
}

}  // namespace

bool is_unset(const Node& value, std::string_view neutral) {
  if (const Scalar* scalar = value.scalar()) {
    const std::string word = ascii_lower(scalar->text);
    if (word.empty() || word == "none" || has_word(neutral, word)) return true;
    if (has_word("no off", word) && has_word(neutral, "false")) return true;
    const auto number = parse_number({scalar->text}).value;
    return number && has_word(neutral, show_number(*number));
  }
  if (const Node::List* list = value.list()) {
    return std::all_of(list->begin(), list->end(),
                       [&](const Node& item) { return is_unset(item, neutral); });
  }
  if (const Node::Map* map = value.map()) {
    return std::all_of(map->begin(), map->end(),
                       [&](const Node::Entry& entry) { return is_unset(entry.node, neutral); });
  }
  return true;
}

std::string short_value(const Node& value) {
  constexpr size_t kWidest = 60;
  std::string text = detail::inline_text(value);
  if (text.size() > kWidest) {
    size_t end = kWidest;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // at a character's start
    text = text.substr(0, end) + "...";
  }
  return printable(text);
}

const Node::Entry* TrainerConfig::find(const std::string& key) const {
  const Node::Entry* entry = tree_.find(key);
  return entry && !is_unset(entry->node, "") ? entry : nullptr;
}

std::optional<std::string> TrainerConfig::text(const std::string& key) const {
  const Node::Entry* entry = find(key);
  if (!entry || !entry->node.scalar()) return std::nullopt;
  return entry->node.scalar()->text;
}

std::optional<double> TrainerConfig::number(const std::string& key) const {
  const std::optional<std::string> found = text(key);
  return found ? parse_number({*found}).value : std::nullopt;
}

bool TrainerConfig::flag(const std::string& key) const {
  const std::optional<std::string> found = text(key);
  return found && has_word("true yes on 1 auto", ascii_lower(*found));
}

const Node* TrainerConfig::value_of(const std::string& target) const {
  const Node* node = &out_.recipe;
  for (size_t begin = 0; begin <= target.size();) {
    const size_t end = std::min(target.find('.', begin), target.size());
    const Node::Entry* entry = node->find(target.substr(begin, end - begin));
    if (!entry) return nullptr;
    node = &entry->node;
    begin = end + 1;
  }
  return node;
}

namespace {

/// A value that the config leaves to the trainer's default has no position, but says so.
Span default_origin(const std::string& peer) {
  auto source = std::make_shared<Source>();
  source->path = "default of " + peer;
  source->kind = Source::Kind::kDefault;
  return {std::move(source), 0, 0};
}

}  // namespace

void TrainerConfig::take(const std::string& key) {
  const Node::Entry* entry = find(key);
  if (entry && done_.insert(key).second) out_.taken.push_back({prefix_ + key, entry->where, ""});
}

void TrainerConfig::set(const std::string& target, Node value, const std::string& key) {
  const Node::Entry* entry = find(key);
  // A later value replaces the default.
  std::erase_if(out_.defaults,
                [&](const std::string& each) { return each.starts_with(target + ": "); });
  if (entry) {
    take(key);
    const auto taken =
        std::find_if(out_.taken.begin(), out_.taken.end(),
                     [&](const ImportedKey& each) { return each.key == prefix_ + key; });
    if (taken != out_.taken.end()) taken->target += (taken->target.empty() ? "" : ", ") + target;
  } else {
    out_.defaults.push_back(accel::text("{}: {} ({})", target, short_value(value), prefix_ + key));
  }
  value.where = entry ? entry->where : default_origin(out_.peer);
  value_at(out_.recipe, target) = std::move(value);
}

void TrainerConfig::set_text(const std::string& target, const std::string& text,
                             const std::string& key) {
  set(target, escape_references(scalar_node(text)), key);
}

void TrainerConfig::put(const std::string& target, const std::string& text) {
  value_at(out_.recipe, target) = scalar_node(text);
}

void TrainerConfig::place(const std::string& target, Node value) {
  value_at(out_.recipe, target) = std::move(value);
}

void TrainerConfig::ignore(const std::string& key) {
  const Node::Entry* entry = tree_.find(key);
  if (entry && done_.insert(key).second) out_.idle.push_back({prefix_ + key, entry->where, ""});
}

void TrainerConfig::skip(const std::string& key, const std::string& reason) {
  const Node::Entry* entry = tree_.find(key);
  done_.insert(key);
  out_.left.push_back({prefix_ + key, entry ? entry->where : tree_.where, reason});
}

void TrainerConfig::skip_nested(const std::string& key, const Node::Entry& entry,
                                const std::string& reason) {
  const std::string name = prefix_ + key + '.' + entry.key;
  if (is_unset(entry.node, "")) return out_.idle.push_back({name, entry.where, ""});
  out_.left.push_back({name, entry.where, reason});
}

void TrainerConfig::refuse(const std::string& key, const std::string& message,
                           const std::string& hint) {
  const Node::Entry* entry = tree_.find(key);
  const Span where = entry ? entry->where : tree_.where;
  out_.refusals.push_back({where, accel::text("{}: {}", prefix_ + key, message), hint});
  skip(key, message);
}

void TrainerConfig::refuse_lacking(const std::string& key, const char* feature) {
  refuse(key, lack_of(feature, program_));
}

void TrainerConfig::apply_row(const Node::Entry& entry, const TrainerKey& row) {
  if (is_unset(entry.node, row.neutral)) return ignore(entry.key);
  const Scalar* scalar = entry.node.scalar();
  switch (row.use) {
    case TrainerKey::Use::kCopy:
      // Python's booleans are capitalized.
      if (scalar && (scalar->text == "True" || scalar->text == "False")) {
        return set_text(row.says, ascii_lower(scalar->text), entry.key);
      }
      if (scalar) return set_text(row.says, scalar->text, entry.key);
      break;
    case TrainerKey::Use::kSteps:
      if (scalar) return set_text(row.says, scalar->text + " steps", entry.key);
      break;
    case TrainerKey::Use::kIdle:
      return ignore(entry.key);
    case TrainerKey::Use::kNot:
      return skip(entry.key, row.says);
    case TrainerKey::Use::kLack:
      return skip(entry.key, lack_of(row.says, program_));
    case TrainerKey::Use::kOther:
      return refuse_lacking(entry.key, row.says);
    case TrainerKey::Use::kRead:
      break;
  }
  skip(entry.key, accel::text("its value {} has no counterpart", short_value(entry.node)));
}

void TrainerConfig::apply_table(std::span<const TrainerKey> keys) {
  if (!tree_.map()) return;
  for (const Node::Entry& entry : *tree_.map()) {
    if (done_.contains(entry.key)) continue;
    const auto row = std::find_if(keys.begin(), keys.end(),
                                  [&](const TrainerKey& key) { return entry.key == key.name; });
    if (row != keys.end()) {
      apply_row(entry, *row);
    } else {
      skip(entry.key, "unknown key");
    }
  }
}

const std::vector<TrainerFormat>& trainer_formats() {
  static const std::vector<TrainerFormat> peers = {kTorchtune,    kTorchtitan, kLightning, kAxolotl,
                                                   kLlamaFactory, kTrl,        kTrainer};
  return peers;
}

Imported import_recipe(const Node& tree, const std::string& path, const std::string& peer,
                       const ProgramIndex& program) {
  Imported out;
  std::vector<std::string> names;
  for (const TrainerFormat& each : trainer_formats()) {
    names.emplace_back(each.name);
    if (peer.empty()) {
      if (tree.map()) out.detected_by = each.recognized_by(tree);
      if (out.detected_by.empty()) continue;
    } else if (peer != each.name) {
      continue;
    }
    out.peer = each.name;
    each.read(tree, out, program);
    std::stable_sort(
        out.recipe.map()->begin(), out.recipe.map()->end(),
        [](const Node::Entry& a, const Node::Entry& b) { return rank_of(a.key) < rank_of(b.key); });
    return out;
  }
  throw Error(ExitCode::kRecipe, text("'{}' is not a config of a known trainer", path),
              text("name its format with '--from': {} or accelerate", joined(names)));
}

void check_method(const Imported& imported) {
  if (!imported.refusals.empty()) throw RecipeError(imported.refusals);
}

}  // namespace accel
