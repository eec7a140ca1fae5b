#include "core/recipe/key_lookup.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace accel {
namespace {

/// Fields in one place with the component that declares them, "" for a section's own.
using OwnedFields = std::vector<std::pair<FieldInfo, std::string>>;

bool is_list_index(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

class KeySearch {
 public:
  explicit KeySearch(const Registry& registry) : registry_(registry) {}

  void look(const std::string& key, const OwnedFields& fields) {
    const size_t end = std::min(key.find('.'), key.size());
    const std::string word = key.substr(0, end);
    std::vector<std::string> names;
    bool here = false;
    for (const auto& [field, owner] : fields) {
      names.push_back(field.name);
      if (field.name != word && (word.empty() || field.renamed_from != word)) continue;
      here = true;
      if (end == key.size()) {
        found_.known = true;
        found_.options.push_back({field, owner});
      } else {
        look_inside(key.substr(end + 1), {field, owner});
      }
    }
    if (!here) found_.valid_names = std::move(names);
  }

  KeyLookup take() {
    if (found_.known) found_.valid_names.clear();
    return std::move(found_);
  }

 private:
  void look_inside(const std::string& key, const DeclaredOption& option) {
    const auto& [field, owner] = option;
    const size_t end = std::min(key.find('.'), key.size());
    if (is_list_index(key.substr(0, end))) {
      if (end < key.size()) return look_inside(key.substr(end + 1), option);
      found_.known = true;
      found_.options.push_back(option);
      return;
    }
    OwnedFields inner;
    for (const FieldInfo& each : field.fields) inner.emplace_back(each, owner);
    for (const CatalogIndex* catalog : registry_.all()) {
      if (catalog->kind() == field.kind) add_options(*catalog, inner);
    }
    if (!inner.empty()) return look(key, inner);
    found_.known = found_.known || field.json.find("\"object\"") != std::string::npos;
  }

  static void add_options(const CatalogIndex& catalog, OwnedFields& out) {
    FieldInfo type;
    type.name = "type";
    type.type = "the name of a component";
    type.help = "Which " + catalog.kind() + ".";
    out.emplace_back(std::move(type), "");
    for (const auto& [name, component] : catalog.items()) {
      for (const FieldInfo& field : component.fields) out.emplace_back(field, name);
    }
  }

  const Registry& registry_;
  KeyLookup found_;
};

}  // namespace

KeyLookup find_key(const std::string& key, const std::vector<FieldInfo>& sections,
                   const Registry& registry) {
  KeySearch search(registry);
  OwnedFields top;
  for (const FieldInfo& field : sections) top.emplace_back(field, "");
  search.look(key, top);
  return search.take();
}

}  // namespace accel
