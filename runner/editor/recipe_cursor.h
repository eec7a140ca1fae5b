// Where in a recipe a cursor stands, be the text whole or just being typed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/node.h"

namespace accel {

/// A key that is typed, or a value.
struct RecipeCursor {
  /// "optimizer", "groups", "0": to the section that the key is of, or to the value.
  std::vector<std::string> path;
  bool key = false;
  size_t begin = 0, end = 0;   ///< the word at the cursor, in bytes of the text
  bool touches_colon = false;  ///< a value right behind its key's colon, which wants a space
  /// The text, with a mark in place of the word and cut behind it where it does not parse else.
  std::string patched;
  Node tree;  ///< of that
};

/// What stands at a byte of a text; null in a comment or where nothing can be told. `path` says by
/// its ending which syntax it is.
std::optional<RecipeCursor> find_cursor(const std::string& path, const std::string& text,
                                        size_t offset);

/// A key or value that is there, as hovering finds it.
struct RecipeWord {
  std::vector<std::string> path;  ///< of the value, or of what the key is of
  bool key = false;
  size_t begin = 0, end = 0;
  Node tree;  ///< of the whole text, or of the part that parses
};

std::optional<RecipeWord> find_word(const std::string& path, const std::string& text,
                                    size_t offset);

/// The tree of a text that may be unfinished, places included: of as much as parses when it ends
/// behind the line of `offset`. Null: nothing does.
Node parse_unfinished(const std::string& path, const std::string& text, size_t offset);

}  // namespace accel
