// Diagnostics of recipes: collected errors with positions and hints, and their rendering.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/recipe/source.h"

namespace accel {

enum class Severity { kError, kWarning };

/// One error or warning, its position and how to fix it.
struct Diagnostic {
  Span where;
  std::string message;
  std::string hint;
  Severity severity = Severity::kError;
};

/// "recipe.yaml:7:5: error: ..." followed by the source line, a caret and the hint.
std::string render(const Diagnostic& diagnostic);

/// One line of JSON: file, line, column, severity, message, hint.
std::string render_json(const Diagnostic& diagnostic);

/// Invalid recipe. Exit code 2. `what()` has all diagnostics, rendered.
class RecipeError : public Error {
 public:
  explicit RecipeError(std::vector<Diagnostic> diagnostics);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Collects the errors of a recipe, so that one run reports all.
class Diagnostics {
 public:
  /// Ignored at a spoiled value: it would be a consequence of a reported error.
  void error(const Span& where, std::string message, std::string hint = {});
  /// The recipe works, but should be changed. No error: size(), empty() and check() ignore it.
  void warning(const Span& where, std::string message, std::string hint = {});
  /// Adds a diagnostic of either severity.
  void add(const Diagnostic& diagnostic);
  /// Suppresses further errors of the value at this position.
  void spoil(const Span& where);
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  /// Whether the limit of reported errors is reached.
  bool crowded() const { return list_.size() >= kMostShown; }
  const std::vector<Diagnostic>& list() const { return list_; }
  /// In the order of the text, without duplicates.
  std::vector<Diagnostic> warnings() const;
  /// Throws RecipeError when an error was reported: errors and warnings in the order of the text,
  /// without duplicates, and a count of those beyond the first hundred.
  void check() const;

 private:
  static constexpr size_t kMostShown = 100;

  std::vector<Diagnostic> list_;
  std::vector<Diagnostic> warnings_;
  std::vector<Span> spoiled_;
};

/// Prints warnings on standard error, laid out as render() or, where errors are JSON,
/// render_json() does.
void print_warnings(const std::vector<Diagnostic>& warnings);

/// The name in `names` closest to `word` (insert, drop, change, swap), or "" when none is near.
std::string closest(const std::string& word, const std::vector<std::string>& names);

/// "did you mean 'x'?" for the closest name, or "" when none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

}  // namespace accel
