// A document open in an editor: positions, and the key or value at a cursor.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/node.h"

namespace accel {

/// A position of the Language Server Protocol: 0-based line, 0-based UTF-16 code unit.
struct EditorPosition {
  size_t line = 0;
  size_t character = 0;
};

struct EditorDocument {
  std::string uri;
  std::string path;  ///< absolute; ends with .toml for TOML, whatever the URI
  std::string text;

  /// The byte offset of a position, clamped to the end of its line or of the text.
  size_t offset_of(const EditorPosition& position) const;
  EditorPosition position_of(size_t offset) const;
  /// The offset of a 1-based line and a 1-based column in bytes.
  size_t offset_at(int line, int column) const;
};

/// The path of a `file:` URI; "" for others, such as unsaved files.
std::string path_of_uri(std::string_view uri);
std::string uri_of_path(std::string_view path);

/// Whether a text looks like a recipe: it has one of a recipe's sections at the top level. Editors
/// send every YAML file.
bool looks_like_recipe(std::string_view text);

/// The key or value being typed.
struct RecipeCursor {
  /// "optimizer", "groups", "0": the path of the key's section, or of the value.
  std::vector<std::string> path;
  bool key = false;
  size_t begin = 0, end = 0;   ///< the word at the cursor, in bytes of the text
  bool touches_colon = false;  ///< a value directly after its key's colon, where a space is missing
  /// The text with a marker in place of the word, truncated after it if needed to parse.
  std::string patched;
  Node tree;  ///< of `patched`
};

/// The key or value at a byte of a text; null in a comment or if unknown. The extension of `path`
/// selects the syntax.
std::optional<RecipeCursor> find_cursor(const std::string& path, const std::string& text,
                                        size_t offset);

/// An existing key or value, for hover.
struct RecipeWord {
  std::vector<std::string> path;  ///< of the value, or of the key's section
  bool key = false;
  size_t begin = 0, end = 0;
  Node tree;  ///< of the whole text, or of the prefix that parses
};

std::optional<RecipeWord> find_word(const std::string& path, const std::string& text,
                                    size_t offset);

/// The tree of a text that may be unfinished: of the longest prefix that parses, at least up to the
/// line of `offset`. Null when nothing parses.
Node parse_unfinished(const std::string& path, const std::string& text, size_t offset);

}  // namespace accel
