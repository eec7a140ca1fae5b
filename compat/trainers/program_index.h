// Names of the options and components of this program, so that the import says of it what it has.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/catalog_index.h"

namespace accel {

/// Every key that a recipe may have, every component, and the models of Hugging Face folders.
class ProgramIndex {
 public:
  /// Knows nothing: no sentence is checked, and no model is refused.
  ProgramIndex() = default;
  /// `reads` tells whether a folder of a `model_type` can be loaded.
  ProgramIndex(const std::vector<FieldInfo>& recipe, const std::vector<const CatalogIndex*>& kinds,
               std::function<bool(const std::string&)> reads);

  /// Whether a recipe may have the key: "train.freeze", "model.lora.rank".
  bool has_key(const std::string& key) const { return keys_.contains(key); }
  bool has_component(const std::string& kind, const std::string& name) const {
    return components_.contains(kind + ' ' + name);
  }
  /// A key or component with one of `words`, which blanks separate; `*` at the end of a word is any
  /// end. "" if there is none.
  std::string named(std::string_view words) const;
  /// Whether a folder of this type cannot be loaded.
  bool lacks_model(const std::string& model_type) const { return reads_ && !reads_(model_type); }

 private:
  void add_fields(const std::vector<FieldInfo>& fields, const std::string& prefix,
                  const std::vector<const CatalogIndex*>& kinds, int depth);

  std::set<std::string> keys_;
  std::set<std::string> components_;  ///< "optimizer adamw"
  std::function<bool(const std::string&)> reads_;
};

/// Why a key that needs the feature is not converted: accel-run lacks it, or else the import does
/// not write its option. Throws std::logic_error for an unknown feature.
std::string lack_of(std::string_view feature, const ProgramIndex& program);

}  // namespace accel
