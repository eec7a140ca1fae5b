// Description of one option: for help, the reference pages, the JSON Schema, hints and deprecated
// names.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Effect of a changed value on a resumed run.
enum class Change {
  kFree,        ///< logging, saving, stopping: applied silently
  kConsent,     ///< changes the numbers: needs `--allow KEY`
  kImpossible,  ///< incompatible with the saved state
};

/// A name that other trainers have for an option or for something that it expresses.
struct OptionHint {
  std::string name;
  /// What to write as the option's value: `{}` is the value given under `name`, `{percent}` that
  /// fraction as a percentage, `{name}` the last name of that path. "a>b|c>d|e" is "b" for the
  /// value "a", "d" for "c", and else "e".
  std::string value;
};

/// Type-independent description of an option.
struct FieldInfo {
  std::string name;
  std::string type;      ///< "a whole number"
  std::string fallback;  ///< the default as a recipe would write it
  std::string help;
  std::string rule;       ///< "at least 1", or ""
  std::string json;       ///< JSON Schema keywords without the braces
  std::string kind = {};  ///< the component kind for a component option, else ""
  bool required = false;
  Change change = Change::kConsent;
  bool handled = false;  ///< consumed before the section is read
  /// Of a nested section; of a component, the additional keys beside its options.
  std::vector<FieldInfo> fields = {};
  std::string renamed_from = {};  ///< the deprecated name, which recipes may still use, or ""
  std::vector<OptionHint> hints = {};
};

}  // namespace accel
