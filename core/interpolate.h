// `${...}` in recipes: variables, the environment, secrets and what is known of the run.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/node.h"

namespace accel {

/// Answers what a reference names; null when there is no such thing.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// What references can reach besides the recipe's own `vars`.
struct References {
  Lookup environment;  ///< `${env:NAME}`
  Lookup secret;       ///< `${secret:NAME}`
  /// "run.id", "run.dir", "recipe.dir", "git.sha"; asked only when a recipe uses the name.
  Lookup fact;
};

/// Replaces every reference in the values of a merged recipe. `vars`, `smoke` and `x-` notes stay
/// as written; a variable is looked at only where it is used.
///
/// A value that is one whole reference becomes what it refers to: a section, a list, or a plain
/// scalar that may be a number. Otherwise the reference's text is put in, and the value is a text.
/// `$$` is a dollar sign, as is a `$` before anything but `{`. A relative path belongs to the file
/// whose text it begins with, to the working folder when that is the environment or an argument.
/// Texts with secrets keep the reference and carry the value in Scalar::secret.
///
/// What is wrong is reported, and the value spoiled for later readers.
void interpolate(Node& recipe, const References& references, Diagnostics& problems);

/// The opposite for a tree that is to be read as a recipe again: `${` and `$$` in values are
/// escaped, but not where a secret's reference stands.
Node escape_references(Node recipe);

}  // namespace accel
