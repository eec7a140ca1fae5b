// Texts that recipe values come from, and positions in them.
#pragma once

#include <memory>
#include <string>

namespace accel {

/// A text that recipe values come from, kept alive by every Span that points into it.
struct Source {
  enum class Kind { kFile, kArgument, kEnvironment, kDefault };

  /// The file as the user named it, the argument as typed, or the name of a variable.
  std::string path;
  std::string text;
  Kind kind = Kind::kFile;
  int argument = 0;  ///< position on the command line, for Kind::kArgument
};

/// A position in a Source. Lines and columns start at 1 and count bytes; line 0: no position.
struct Span {
  std::shared_ptr<const Source> source;
  int line = 0;
  int column = 0;

  bool operator==(const Span&) const = default;
};

}  // namespace accel
