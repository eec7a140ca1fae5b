// What can be said of a place in a recipe, from the declarations of its options: the words that can
// stand there, and what they mean.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

/// A word that can be typed at a place.
struct Suggestion {
  enum class What { kOption, kSection, kComponent, kValue };

  std::string word;
  What what = What::kOption;
  std::string detail;  ///< "a number; more than 0; default 0.001"
  std::string help;    ///< Markdown
};

/// Tells what the options of a recipe are. Paths are as RecipeCursor has them; `tree` is the
/// recipe, whose `type`s say which options a component has; where there is none, those of all of
/// its kind.
class RecipeHelp {
 public:
  RecipeHelp(std::vector<FieldInfo> sections, const Registry& registry)
      : sections_(std::move(sections)), registry_(registry) {}

  /// The keys that the section at `path` may have and has not.
  std::vector<Suggestion> keys(const Node& tree, const std::vector<std::string>& path) const;
  /// The words that the value at `path` may be: components, names, switches, its default.
  std::vector<Suggestion> values(const Node& tree, const std::vector<std::string>& path) const;
  /// Markdown on the option or component at `path`; "" when there is nothing to say.
  std::string explain(const Node& tree, const std::vector<std::string>& path) const;

 private:
  /// What is declared for one place.
  struct Place {
    const Node* node = nullptr;             ///< null: the recipe has nothing there
    std::vector<FieldInfo> fields;          ///< keys of the section there
    const CatalogIndex* catalog = nullptr;  ///< of the component there
    std::optional<FieldInfo> option;        ///< whose value it is
    bool is_type = false;                   ///< the value of a component's `type`
  };

  std::optional<Place> find(const Node& tree, const std::vector<std::string>& path) const;
  void enter(Place& place, const std::string& word) const;
  void open(Place& place) const;
  const CatalogIndex* catalog(const std::string& kind) const;

  std::vector<FieldInfo> sections_;
  const Registry& registry_;
};

}  // namespace accel
