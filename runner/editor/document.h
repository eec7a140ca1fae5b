// A recipe open in an editor: its text, and places in it as editors count them.
#pragma once

#include <string>
#include <string_view>

namespace accel {

/// A place as editors tell it: lines from 0, characters in UTF-16 units from 0.
struct EditorPosition {
  size_t line = 0;
  size_t character = 0;
};

struct EditorDocument {
  std::string uri;
  std::string path;  ///< absolute; ends with .toml for TOML whatever the URI is
  std::string text;

  /// The offset of a place in bytes; the end of the line, or of the text, for one beyond it.
  size_t offset_of(const EditorPosition& position) const;
  EditorPosition position_of(size_t offset) const;
  /// The offset of a line and column that start at 1 and count bytes.
  size_t offset_at(int line, int column) const;
};

/// The path of a `file:` URI; "" for others, which are of files not saved yet.
std::string path_of_uri(std::string_view uri);
std::string uri_of_path(std::string_view path);

/// Whether a text is meant as a recipe: it has one of a recipe's own sections at its top. Editors
/// hand over whatever is YAML.
bool looks_like_recipe(std::string_view text);

}  // namespace accel
