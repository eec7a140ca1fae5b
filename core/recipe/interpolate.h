// `${...}` references in recipes: variables, environment, secrets and properties of the run.
#pragma once

#include "core/base/environment.h"
#include "core/recipe/node.h"

namespace accel {

/// Sources of references besides the recipe's `vars`.
struct References {
  EnvironmentLookup environment;  ///< `${env:NAME}`
  EnvironmentLookup secret;       ///< `${secret:NAME}`
  /// "run.id", "run.dir", "recipe.dir", "git.sha"; looked up only on use.
  EnvironmentLookup fact;
};

/// Replaces the references in the values of a merged recipe. `vars`, `smoke` and `x-` notes stay
/// as written; a variable is evaluated on use.
///
/// A value that is exactly one reference becomes its target: a section, a list, or an unquoted
/// scalar. Otherwise the target's text is inserted, and the value is a text. `$$` is a dollar sign,
/// as is a `$` not followed by `{`. A relative path is relative to the file that wrote its first
/// characters, or to the working folder for the environment and arguments. Texts with secrets keep
/// the reference and have the value in Scalar::secret.
///
/// Errors are reported, and the value is spoiled.
void interpolate(Node& recipe, const References& references, Diagnostics& problems);

/// The inverse, for a tree that is written as a recipe: escapes `${` and `$$` in values, except in
/// references to secrets.
Node escape_references(Node recipe);

}  // namespace accel
