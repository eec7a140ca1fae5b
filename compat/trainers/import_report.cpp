// The recipe of an import as text, and the report on the keys of its source.
#include <algorithm>
#include <cmath>
#include <set>

#include "compat/trainers/import_recipe.h"
#include "core/base/text.h"

namespace accel {
namespace {

std::string position_text(const Span& where, bool columns) {
  const std::string path = where.source ? where.source->path : "config";
  const std::string text = path + ':' + std::to_string(where.line);
  return columns ? text + ':' + std::to_string(where.column) : text;
}

/// Whether keys share a line, as in JSON on one line: then positions have columns.
bool shares_lines(const Imported& imported) {
  std::set<int> lines;
  for (const std::vector<ImportedKey>* keys : {&imported.taken, &imported.idle}) {
    for (const ImportedKey& key : *keys) {
      if (!lines.insert(key.where.line).second && key.key.find('.') == key.key.npos) return true;
    }
  }
  return false;
}

std::string heading(const char* title, size_t count, size_t all) {
  const long share = all == 0 ? 0 : std::lround(100.0 * static_cast<double>(count) / all);
  return text("{}: {} of {} keys ({} %)\n", title, count, all, share);
}

template <class Keys>
auto by_position(Keys keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return std::pair(a.where.line, a.where.column) < std::pair(b.where.line, b.where.column);
  });
  return keys;
}

std::string listed(const char* title, const std::vector<std::string>& lines) {
  std::string out = lines.empty() ? "" : std::string(title) + ":\n";
  for (const std::string& line : lines) out += "  " + line + '\n';
  return out;
}

}  // namespace

std::string imported_text(const Imported& imported) {
  const bool columns = shares_lines(imported);
  return to_yaml(imported.recipe, [columns](const Node& value) -> std::string {
    const Source* source = value.where.source.get();
    if (!source) return {};
    return value.where.line == 0 ? source->path : position_text(value.where, columns);
  });
}

std::string import_report(const Imported& imported) {
  const bool columns = shares_lines(imported);
  std::set<std::string> left;
  for (const ImportNote& note : imported.left) left.insert(note.key);
  const size_t all = imported.taken.size() + imported.idle.size() + left.size();
  std::string out = heading("in the recipe", imported.taken.size(), all);
  for (const ImportedKey& key : by_position(imported.taken)) {
    const std::string arrow = key.target.empty() ? "" : " -> " + key.target;
    out += text("  {}: {}{}\n", position_text(key.where, columns), key.key, arrow);
  }
  out += heading("no effect here", imported.idle.size(), all);
  for (const ImportedKey& key : by_position(imported.idle)) {
    out += text("  {}: {}\n", position_text(key.where, columns), key.key);
  }
  out += heading("not in the recipe", left.size(), all);
  for (const ImportNote& note : by_position(imported.left)) {
    out += text("  {}: {}: {}\n", position_text(note.where, columns), note.key, note.reason);
  }
  out += listed(text("defaults of {}", imported.peer).c_str(), imported.defaults);
  out += listed("note", imported.remarks);
  return out + listed("missing", imported.missing);
}

}  // namespace accel
