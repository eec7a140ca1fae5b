// Components built from recipe text, as a job builds them.
#pragma once

#include <memory>
#include <string>

#include "core/recipe/node.h"
#include "core/recipe/registry.h"

namespace accel {

/// The component that `yaml` names. Throws RecipeError for wrong options and what the component's
/// constructor throws.
template <class Base>
std::unique_ptr<Base> build(const std::string& yaml,
                            const typename Kind<Base>::Context& context = {}) {
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const Ref<Base> ref = registry.of<Base>().prepare(parse_recipe("recipe.yaml", yaml), reading);
  problems.check();
  return ref.make(context);
}

/// What building it throws; "" when it can be built.
template <class Base>
std::string complaint(const std::string& yaml, const typename Kind<Base>::Context& context = {}) {
  try {
    build<Base>(yaml, context);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace accel
