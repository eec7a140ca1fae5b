#include "core/recipe/override.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/parse.h"

namespace accel {
namespace {

std::string join_path(const std::vector<std::string>& path, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i > 0 ? "." : "") + path[i];
  return out;
}

/// Splits "a.b+" into the components of the path and the mark. False: reported.
bool split_key(const std::string& key, Override& out, Diagnostics& problems) {
  std::string path = key;
  if (path.size() > 1 && (path.back() == '+' || path.back() == '!')) {
    out.mark = path.back();
    path.pop_back();
  }
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    out.path.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool gap = std::find(out.path.begin(), out.path.end(), "") != out.path.end();
  const bool deep = out.path.size() > static_cast<size_t>(kMaxDepth);
  if (!gap && !deep) return true;
  problems.error(out.where,
                 gap ? text("'{}' is not the name of an option", key) : "the key is too long",
                 gap ? "write 'section.option=value'" : "");
  out.path.clear();
  return false;
}

bool is_index(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

/// The item of `list` at `depth` of the path; null: reported.
Node* item_of(Node& list, const Override& change, size_t depth, Diagnostics& problems) {
  const std::string& part = change.path[depth];
  const std::string name = join_path(change.path, depth);
  const size_t size = list.list()->size();
  if (!is_index(part)) {
    problems.error(change.where, text("'{}' is a list, so '{}' must be a number", name, part),
                   size > 0 ? text("write '{}.0.{}' for its first item", name, part) : "");
    return nullptr;
  }
  size_t index = size;
  std::from_chars(part.data(), part.data() + part.size(), index);
  if (index < size) return &(*list.list())[index];
  problems.error(change.where,
                 text("'{}' has {} item{}, and no item {}", name, size, size == 1 ? "" : "s", part),
                 size > 0 ? text("items count from 0 to {}", size - 1)
                          : text("write '{}+=...' to add one", name));
  return nullptr;
}

/// The override's value as a layer from `depth` on: `{b: {c: value}}`.
Node layer_from(const Override& change, size_t depth) {
  Node layer = change.value;
  for (size_t i = change.path.size(); i > depth; --i) {
    const std::string mark = i == change.path.size() ? change.mark : "";
    layer = {Node::Map{{change.path[i - 1] + mark, change.where, std::move(layer)}}, change.where};
  }
  return layer;
}

void apply_override(Node& recipe, Override change, Merging& merging) {
  if (merging.names) {
    merging.names->replace(change, merging.problems, {&recipe, merging.composed});
    if (change.path.empty()) return;  // reported
  }
  // Lists are walked here: a layer could only replace them as a whole.
  Node* base = &recipe;
  size_t begin = 0;
  Node* at = &recipe;
  for (size_t depth = 0; depth < change.path.size() && at; ++depth) {
    if (at->list()) {
      at = item_of(*at, change, depth, merging.problems);
      if (!at) return;
      base = at;
      begin = depth + 1;
    } else {
      Node::Entry* entry = at->find(change.path[depth]);
      at = entry ? &entry->node : nullptr;
    }
  }
  // `expect={}`: merging an empty section would change nothing.
  const bool empties = change.value.map() && change.value.map()->empty() && change.mark.empty();
  if (empties && begin == change.path.size()) *base = change.value;
  if (empties && begin < change.path.size()) change.mark = '!';
  const std::string key = join_path(change.path, begin);
  if (begin < change.path.size() || change.mark.empty()) {
    merge(*base, layer_from(change, begin), key, merging);
    return;
  }
  merging.problems.error(change.where, text("'{}{}' marks an item of a list", key, change.mark),
                         text("write '{}=...'", key));
}

/// Whether YAML reads the value as a directive, or as a mark between documents.
bool starts_document(std::string_view value) {
  if (value.starts_with('%')) return true;
  const bool marks = value.starts_with("---") || value.starts_with("...");
  return marks && (value.size() == 3 || value[3] == ' ');
}

}  // namespace

Override parse_override(const std::string& argument, int number, Diagnostics& problems) {
  const auto source =
      std::make_shared<const Source>(Source{argument, argument, Source::Kind::kArgument, number});
  Override out;
  out.where = {source, 1, 1};
  if (!check_text(source, problems)) return out;
  const size_t equals = argument.find('=');
  if (argument.starts_with('~')) {
    if (equals != argument.npos) {
      problems.error(out.where, "'~' removes a section and takes no value",
                     text("write '{}'", argument.substr(0, equals)));
      return out;
    }
    out.value.where = out.where;
    if (split_key(argument.substr(1), out, problems) && !out.mark.empty()) {
      problems.error(out.where, text("'~' and '{}' exclude each other", out.mark));
      out.path.clear();
    }
    return out;
  }
  if (equals == argument.npos || equals == 0) {
    problems.error(out.where, text("'{}' is not an override", argument),
                   "write 'section.option=value', or '~section' to remove it");
    return out;
  }
  const std::string_view value = std::string_view(source->text).substr(equals + 1);
  if (starts_document(value)) {
    problems.error({source, 1, static_cast<int>(equals) + 2},
                   "a text cannot start with this character", "put the text in quotes");
    return out;
  }
  const size_t before = problems.size();
  out.value = parse_yaml(source, equals + 1, problems);
  if (problems.size() == before) split_key(argument.substr(0, equals), out, problems);
  return out;
}

std::string joined_path(const Override& change) {
  return join_path(change.path, change.path.size());
}

std::vector<Override> overrides_of(const Node& section, Diagnostics& problems) {
  std::vector<Override> out;
  if (!section.map()) {
    if (!section.null()) {
      problems.error(section.where, text("'smoke' wants a section, not {}", section.describe()));
    }
    return out;
  }
  for (const Node::Entry& entry : *section.map()) {
    Override change;
    change.value = entry.node;
    change.where = entry.where;
    const bool removes = entry.key.starts_with('~');
    if (removes) change.value = {{}, entry.where};
    if (split_key(entry.key.substr(removes ? 1 : 0), change, problems)) {
      out.push_back(std::move(change));
    }
  }
  return out;
}

void apply_overrides(Node& recipe, std::vector<Override> overrides, Merging& merging) {
  std::erase_if(overrides, [](const Override& change) { return change.path.empty(); });
  const auto width = [](const Override& change) {
    return std::pair(change.path.size(), change.path.back() != "type");
  };
  std::stable_sort(overrides.begin(), overrides.end(),
                   [&](const Override& a, const Override& b) { return width(a) < width(b); });
  for (Override& change : overrides) apply_override(recipe, std::move(change), merging);
}

}  // namespace accel
