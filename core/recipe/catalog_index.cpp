#include "core/recipe/catalog_index.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/base/text.h"
#include "core/recipe/other_names.h"

namespace accel {
namespace {

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

}  // namespace accel
