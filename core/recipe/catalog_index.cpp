#include "core/recipe/catalog_index.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/base/text.h"
#include "core/recipe/other_names.h"

namespace accel {
namespace {

/// Names that recipes may use and that cannot be supported.
constexpr struct {
  const char* kind;
  const char* name;
  const char* reason;
  const char* hint;
} kRefused[] = {
    {"tracker", "aim", "Aim's store can be written by its own Python package only",
     "use 'tensorboard': 'aim convert tensorboard' imports it where tensorflow is installed"},
};

/// "early_stop" of "EarlyStop".
std::string snake_case(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isupper(static_cast<unsigned char>(c)) && !out.empty()) out += '_';
    out += c;
  }
  return ascii_lower(out);
}

}  // namespace

std::vector<std::string> CatalogIndex::names() const {
  std::vector<std::string> all;
  for (const auto& [name, info] : items_) all.push_back(name);
  return all;
}

const ComponentInfo* CatalogIndex::once_named(const std::string& name) const {
  for (const auto& [current, info] : items_) {
    if (!name.empty() && info.renamed_from == name) return &info;
  }
  return nullptr;
}

std::string CatalogIndex::unknown_name_hint(const std::string& name) const {
  const std::string small = ascii_lower(name), snake = snake_case(name);
  if (const std::string other = other_component_hint(kind_, name); !other.empty()) return other;
  for (const auto& [current, info] : items_) {
    const auto& others = info.hint_for;
    if (std::find(others.begin(), others.end(), name) != others.end()) {
      return text("write '{}'", current);
    }
  }
  for (const auto& [current, info] : items_) {
    const auto& others = info.hint_for;
    if (current == small || current == snake ||
        std::find(others.begin(), others.end(), small) != others.end()) {
      return text("component names are lower case: '{}'", current);
    }
  }
  const std::string tail = name.substr(name.rfind('.') + 1);
  if (tail != name && items_.contains(ascii_lower(tail))) {  // "torch.optim.AdamW"
    return text("write '{}'", ascii_lower(tail));
  }
  const std::string near = did_you_mean(name, names());
  if (!near.empty()) return near;
  return name.find('/') != std::string::npos
             ? "'plugins' must have the file that brings it"
             : text("'accel-run list {}' shows what there is", kind_);
}

void CatalogIndex::enter(ComponentInfo info) {
  const std::string name = info.name;
  if (!items_.emplace(name, std::move(info)).second) {
    throw std::logic_error(text("two {}s are named '{}'", kind_, name));
  }
}

const ComponentInfo* CatalogIndex::choose(const Node& node, Reading& reading) const {
  const Node* type = &node;  // a bare scalar is short for {type: scalar}
  if (node.map()) {
    const Node::Entry* entry = node.find("type");
    if (!entry) {
      reading.problems.error(node.where, text("the {} has no 'type'", kind_),
                             text("'accel-run list {}' shows what there is", kind_));
      return nullptr;
    }
    type = &entry->node;
  }
  const Scalar* scalar = type->scalar();
  if (!scalar) {
    reading.wrong_type(*type, node.map() ? "type" : kind_,
                       (kind_ == "optimizer" ? "the name of an " : "the name of a ") + kind_);
    return nullptr;
  }
  const auto found = items_.find(scalar->text);
  if (found != items_.end()) return &found->second;
  for (const auto& refused : kRefused) {
    if (refused.kind != kind_ || refused.name != scalar->text) continue;
    reading.problems.error(type->where,
                           text("there is no {} '{}': {}", kind_, scalar->text, refused.reason),
                           refused.hint);
    return nullptr;
  }
  reading.problems.error(type->where, text("no {} is named '{}'", kind_, scalar->text),
                         unknown_name_hint(scalar->text));
  return nullptr;
}

}  // namespace accel
