// Generation of a recipe for given data, and creation of files for the user.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/draft/draft_request.h"

namespace accel {

/// Throws Error(kRecipe) when `path` exists.
void check_new_file(const std::filesystem::path& path);
/// Writes a new file. Throws as check_new_file(), and IoError.
void write_new_file(const std::filesystem::path& path, const std::string& text);

/// Tells data from the recipe, which ends with .yaml or .yml: the two may be given in any order,
/// and without a recipe's name it is the data's with .yaml, in the working folder. Throws
/// Error(kRecipe) when neither is given, and for a recipe with another ending.
DraftRequest named_recipe(DraftRequest request);

struct NewRecipe {
  std::string text;                ///< YAML, with the findings as comments
  std::vector<std::string> lines;  ///< the findings, for the terminal
  std::string first_command;       ///< must be run before the recipe; empty: none
};

/// A complete recipe for a table, JSON rows, images in class folders or in a .tar, IDX files, plain
/// text, or a folder with one of them. A test or validation split beside the data becomes the eval
/// set; without one a part is held out.
///
/// Throws DataError for missing data, an unknown format and data that cannot be trained, and
/// Error(kRecipe) for wishes that do not apply.
NewRecipe new_recipe(const DraftRequest& request);

}  // namespace accel
