// What a parser must keep for any bytes: a tree that writes and reads back the same, or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "core/recipe/parse.h"
#include "tests/unit/core/same_tree.h"

namespace accel {

/// Parses the bytes as `path`; stops the fuzzer when what is written does not read back equal.
/// Only the limit on bytes may refuse it: what aliases shared and what had no indentation grows.
inline void fuzz_parse(const std::string& path, const uint8_t* data, size_t size) {
  Node tree;
  try {
    tree = parse_recipe(path, {reinterpret_cast<const char*>(data), size});
  } catch (const RecipeError& error) {
    for (const Diagnostic& d : error.diagnostics()) render_json(d);
    return;
  }
  const std::string written = to_yaml(tree);
  if (written.size() > kMaxRecipeBytes) return;
  const std::string problem = read_back_difference(tree, written);
  if (problem.empty()) return;
  std::cerr << problem << "\n" << written;
  std::abort();
}

}  // namespace accel
