#include "core/override.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "core/parse.h"

namespace accel {
namespace {

std::string join_path(const std::vector<std::string>& path, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i > 0 ? "." : "") + path[i];
  return out;
}

/// "a.b+" as the parts of the path and the mark. False: reported.
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
  problems.error(out.where, gap ? "'" + key + "' names no option" : "the key is too long",
                 gap ? "write 'section.option=value'" : "");
  out.path.clear();
  return false;
}

bool is_index(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

/// The item of `list` that the path names at `depth`; null: reported.
Node* item_of(Node& list, const Override& change, size_t depth, Diagnostics& problems) {
  const std::string& part = change.path[depth];
  const std::string name = join_path(change.path, depth);
  const size_t size = list.list()->size();
  if (!is_index(part)) {
    problems.error(change.where, "'" + name + "' is a list, so '" + part + "' must be a number",
                   size > 0 ? "write '" + name + ".0." + part + "' for its first item" : "");
    return nullptr;
  }
  size_t index = size;
  std::from_chars(part.data(), part.data() + part.size(), index);
  if (index < size) return &(*list.list())[index];
  problems.error(change.where,
                 "'" + name + "' has " + std::to_string(size) + (size == 1 ? " item" : " items") +
                     ", and no item " + part,
                 size > 0 ? "items count from 0 to " + std::to_string(size - 1)
                          : "write '" + name + "+=...' to add one");
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

void apply_override(Node& recipe, const Override& change, Merging& merging) {
  // Lists on the way are walked by hand: a layer could only replace them whole.
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
  const std::string key = join_path(change.path, begin);
  if (begin < change.path.size() || change.mark.empty()) {
    merge(*base, layer_from(change, begin), key, merging);
    return;
  }
  merging.problems.error(change.where, "'" + key + change.mark + "' marks an item of a list",
                         "write '" + key + "=...'");
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
                     "write '" + argument.substr(0, equals) + "'");
      return out;
    }
    out.value.where = out.where;
    if (split_key(argument.substr(1), out, problems) && !out.mark.empty()) {
      problems.error(out.where, "'~' and '" + out.mark + "' do not go together");
      out.path.clear();
    }
    return out;
  }
  if (equals == argument.npos || equals == 0) {
    problems.error(out.where, "'" + argument + "' is no override",
                   "write 'section.option=value', or '~section' to remove it");
    return out;
  }
  const size_t before = problems.size();
  out.value = parse_yaml(source, equals + 1, problems);
  if (problems.size() == before) split_key(argument.substr(0, equals), out, problems);
  return out;
}

std::vector<Override> overrides_of(const Node& section, Diagnostics& problems) {
  std::vector<Override> out;
  if (!section.map()) {
    if (!section.null()) {
      problems.error(section.where, "'smoke' wants a section, not " + section.describe());
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
  for (const Override& change : overrides) apply_override(recipe, change, merging);
}

}  // namespace accel
