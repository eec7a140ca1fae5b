// Completion and documentation of recipe keys and values, from the declarations of options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// A completion.
struct Suggestion {
  enum class Kind { kOption, kSection, kComponent, kValue };

  std::string word;
  Kind kind = Kind::kOption;
  std::string detail;  ///< "a number; more than 0; default 0.001"
  std::string help;    ///< Markdown
};

/// Looks up options by path, as in RecipeCursor. The `type`s in `tree` select the options of
/// components; without one, the options of all components of the kind are offered.
class RecipeHelp {
 public:
  RecipeHelp(std::vector<FieldInfo> sections, const Registry& registry)
      : sections_(std::move(sections)), registry_(registry) {}

  /// The missing keys of the section at `path`.
  std::vector<Suggestion> keys(const Node& tree, const std::vector<std::string>& path) const;
  /// Candidate values at `path`: components, enumerators, booleans, the default.
  std::vector<Suggestion> values(const Node& tree, const std::vector<std::string>& path) const;
  /// Markdown on the option or component at `path`; "" if unknown.
  std::string explain(const Node& tree, const std::vector<std::string>& path) const;

 private:
  /// The declaration at one path.
  struct Declared {
    const Node* node = nullptr;             ///< null: not in the recipe
    std::vector<FieldInfo> fields;          ///< keys of a section
    const CatalogIndex* catalog = nullptr;  ///< of a component
    std::optional<FieldInfo> option;        ///< the option
    bool is_type = false;                   ///< it is a component's `type`
  };

  std::optional<Declared> find(const Node& tree, const std::vector<std::string>& path) const;
  void enter(Declared& at, const std::string& word) const;
  void open(Declared& at) const;
  const CatalogIndex* catalog(const std::string& kind) const;

  std::vector<FieldInfo> sections_;
  const Registry& registry_;
};

}  // namespace accel
