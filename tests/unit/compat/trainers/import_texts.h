// Imports of configs in tests, as texts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compat/trainers/import_recipe.h"

namespace accel {

inline Imported imported(const std::string& text, const std::string& peer = "") {
  return import_recipe(parse_recipe("c.yaml", text), "c.yaml", peer);
}

/// The recipe without the places, and the account.
inline std::string reported(const std::string& path, const std::string& text) {
  const Imported result = import_recipe(parse_recipe(path, text), path, "");
  return result.peer + ", recognized by " + result.detected_by + "\n" + to_yaml(result.recipe) +
         "--\n" + import_report(result);
}

/// Whether the import of `text` has the lines.
inline void expect_lines(const std::string& text, const std::vector<std::string>& lines) {
  const std::string all = reported("c.yaml", text);
  for (const std::string& line : lines) {
    EXPECT_NE(all.find(line + "\n"), std::string::npos) << line << "\nis not in\n" << all;
  }
}

/// The first refusal of a config, with its position, and the hint.
inline std::string refusal(const std::string& text, const ProgramIndex& program = {}) {
  const Imported result = import_recipe(parse_recipe("c.yaml", text), "c.yaml", "", program);
  if (result.refusals.empty()) return "";
  const Diagnostic& first = result.refusals.front();
  return std::to_string(first.where.line) + ": " + first.message +
         (first.hint.empty() ? "" : " | " + first.hint);
}

}  // namespace accel
