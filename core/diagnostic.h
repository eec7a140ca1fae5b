// What is wrong with a recipe, where, and how it is shown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"

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

/// A place in a Source. Lines and columns start at 1 and count bytes; line 0 means "nowhere".
struct Span {
  std::shared_ptr<const Source> source;
  int line = 0;
  int column = 0;

  bool operator==(const Span&) const = default;
};

/// One thing wrong, where it is, and how to put it right.
struct Diagnostic {
  Span where;
  std::string message;
  std::string hint;
};

/// "recipe.yaml:7:5: error: ..." followed by the source line, a caret and the hint.
std::string render(const Diagnostic& diagnostic);

/// The same as one line of JSON: file, line, column, severity, message, hint.
std::string render_json(const Diagnostic& diagnostic);

/// The recipe is wrong and the user can fix it. Exit code 2. `what()` is every diagnostic rendered.
class RecipeError : public Error {
 public:
  explicit RecipeError(std::vector<Diagnostic> diagnostics);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Collects everything wrong with a recipe, so that one run reports it all.
class Diagnostics {
 public:
  /// Left out when the value there is spoiled: what follows from a reported problem is no news.
  void error(const Span& where, std::string message, std::string hint = {});
  /// Nothing more is to be said about the value at this place.
  void spoil(const Span& where);
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  /// So many problems that looking for more is no help to anyone.
  bool crowded() const { return list_.size() >= kMostShown; }
  const std::vector<Diagnostic>& list() const { return list_; }
  /// Throws RecipeError when anything was reported: in the order of the text, each problem once,
  /// and a count of those beyond the first hundred.
  void check() const;

 private:
  static constexpr size_t kMostShown = 100;

  std::vector<Diagnostic> list_;
  std::vector<Span> spoiled_;
};

/// The name in `names` closest to `word` (insert, drop, change, swap), or "" when none is near.
std::string closest(const std::string& word, const std::vector<std::string>& names);

/// "did you mean 'x'?" for the closest name, or "" when none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

}  // namespace accel
