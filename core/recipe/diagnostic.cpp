#include "core/recipe/diagnostic.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/base/json_text.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/base/utf8.h"
#include "core/recipe/confusables.h"
#include "core/recipe/quoted_files.h"

namespace accel {
namespace {

std::string line_at(const std::string& text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) return {};
    begin = end + 1;
  }
  std::string found = text.substr(begin, text.find('\n', begin) - begin);
  if (!found.empty() && found.back() == '\r') found.pop_back();
  return found;
}

/// Letters added, dropped, changed or swapped with their neighbour.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string render_all(const std::vector<Diagnostic>& all) {
  std::string text;
  for (const Diagnostic& d : all) text += render(d);
  return text;
}

/// Files in the order they were first spoken of, then arguments by number; in each, by place.
std::vector<Diagnostic> in_order(std::vector<Diagnostic> all) {
  std::vector<const Source*> files;
  const auto key = [&files](const Diagnostic& d) {
    const Source* source = d.where.source.get();
    const bool argument = source && source->kind == Source::Kind::kArgument;
    const auto file = std::find(files.begin(), files.end(), source);
    const auto rank = argument ? source->argument : file - files.begin();
    return std::tuple(argument, rank, d.where.line, d.where.column);
  };
  for (const Diagnostic& d : all) {
    const auto found = std::find(files.begin(), files.end(), d.where.source.get());
    if (found == files.end()) files.push_back(d.where.source.get());
  }
  std::stable_sort(all.begin(), all.end(),
                   [&key](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
  const auto same = [](const Diagnostic& a, const Diagnostic& b) {
    return a.where == b.where && a.message == b.message;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

/// A character as it is shown, and what puts a caret behind it.
struct Cell {
  std::string shown;
  std::string blank;
};

std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> cells;
  for (size_t at = 0; at < line.size();) {
    const size_t length = std::max<size_t>(1, character_length(line, at));
    const std::string_view character = line.substr(at, length);
    if (character == "\t") {
      cells.push_back({"\t", "\t"});
    } else {
      std::string shown = printable(character);
      const size_t width = shown == character ? display_width(character) : shown.size();
      cells.push_back({std::move(shown), std::string(width, ' ')});
    }
    at += length;
  }
  return cells;
}

/// The source line with a caret under `column` (a byte, from 1); long lines are cut around it.
std::string excerpt(const std::string& line, int column) {
  constexpr size_t kWidest = 100;
  const std::vector<Cell> cells = cells_of(line);
  const size_t byte = std::min(static_cast<size_t>(std::max(column, 1)) - 1, line.size());
  const size_t caret = cells_of(std::string_view(line).substr(0, byte)).size();
  size_t begin = 0, end = cells.size();
  if (cells.size() > kWidest) {
    begin = caret > kWidest / 2 ? std::min(caret - kWidest / 2, cells.size() - kWidest) : 0;
    end = begin + kWidest;
  }
  std::string text = begin > 0 ? "..." : "", blank = begin > 0 ? "   " : "";
  for (size_t i = begin; i < end; ++i) {
    text += cells[i].shown;
    if (i < caret) blank += cells[i].blank;
  }
  if (end < cells.size()) text += "...";
  return "    " + text + "\n    " + blank + "^\n";
}

/// Whether a URL in the line may contain a password or a signature, which no message shows.
bool may_hold_credentials(std::string_view line) {
  for (size_t at = line.find("://"); at != line.npos; at = line.find("://", at + 1)) {
    const std::string_view url = line.substr(at, line.find_first_of(" \t'\"", at) - at);
    if (url.find_first_of("@?") != url.npos) return true;
  }
  return false;
}

std::string severity_text(const Diagnostic& d) {
  return d.severity == Severity::kWarning ? "warning" : "error";
}

}  // namespace

std::string render(const Diagnostic& d) {
  std::string out;
  const Source* source = d.where.source.get();
  const bool placed = source && d.where.line > 0;
  if (source && source->kind == Source::Kind::kArgument) {
    out += "argument " + std::to_string(source->argument) + ": ";
  } else if (source && source->kind == Source::Kind::kEnvironment) {
    out += "environment " + source->path + ": ";
  } else if (source && source->kind == Source::Kind::kFile) {
    out += source->path + ':';
    if (placed) out += std::to_string(d.where.line) + ':' + std::to_string(d.where.column) + ':';
    out += ' ';
  }
  out += severity_text(d) + ": " + printable(without_passwords(d.message)) + '\n';
  const bool hidden =
      source && source->kind == Source::Kind::kFile && !is_quoted_file(source->path);
  if (placed && source->kind != Source::Kind::kDefault && !hidden) {
    const std::string line = line_at(source->text, d.where.line);
    if (!may_hold_credentials(line)) out += excerpt(line, d.where.column);
  }
  if (!d.hint.empty()) out += "  hint: " + printable(without_passwords(d.hint)) + '\n';
  return out;
}

std::string render_json(const Diagnostic& d) {
  const Source* source = d.where.source.get();
  std::string out = "{\"severity\": \"" + severity_text(d) + "\"";
  if (source && source->kind == Source::Kind::kArgument) {
    out += ", \"argument\": " + std::to_string(source->argument);
  } else if (source && source->kind == Source::Kind::kEnvironment) {
    out += ", \"environment\": " + json_text(source->path);
  } else if (source && source->kind == Source::Kind::kFile) {
    out += ", \"file\": " + json_text(source->path);
  }
  if (source && d.where.line > 0) {
    out += ", \"line\": " + std::to_string(d.where.line) +
           ", \"column\": " + std::to_string(d.where.column);
  }
  out += ", \"message\": " + json_text(without_passwords(d.message));
  if (!d.hint.empty()) out += ", \"hint\": " + json_text(without_passwords(d.hint));
  return out + "}\n";
}

RecipeError::RecipeError(std::vector<Diagnostic> diagnostics)
    : Error(ExitCode::kRecipe, render_all(diagnostics)), diagnostics_(std::move(diagnostics)) {}

void Diagnostics::error(const Span& where, std::string message, std::string hint) {
  if (std::find(spoiled_.begin(), spoiled_.end(), where) != spoiled_.end()) return;
  list_.push_back({where, std::move(message), std::move(hint)});
}

void Diagnostics::warning(const Span& where, std::string message, std::string hint) {
  warnings_.push_back({where, std::move(message), std::move(hint), Severity::kWarning});
}

void Diagnostics::add(const Diagnostic& diagnostic) {
  if (diagnostic.severity == Severity::kWarning) {
    warnings_.push_back(diagnostic);
  } else {
    error(diagnostic.where, diagnostic.message, diagnostic.hint);
  }
}

std::vector<Diagnostic> Diagnostics::warnings() const {
  return in_order(warnings_);
}

void Diagnostics::spoil(const Span& where) {
  spoiled_.push_back(where);
}

void Diagnostics::check() const {
  if (list_.empty()) return;
  std::vector<Diagnostic> all = list_;
  all.insert(all.end(), warnings_.begin(), warnings_.end());
  all = in_order(std::move(all));
  for (Diagnostic& each : all) explain_odd_characters(each.where, each.hint);
  if (all.size() > kMostShown) {
    const size_t more = all.size() - kMostShown;
    all.resize(kMostShown);
    all.push_back({{}, text("and {} more problems", more), {}});
  }
  throw RecipeError(std::move(all));
}

void print_warnings(const std::vector<Diagnostic>& warnings) {
  for (const Diagnostic& each : warnings) print_warning(render(each), render_json(each));
}

std::string closest(const std::string& word, const std::vector<std::string>& names) {
  if (word.size() > 64) return {};  // no option name is that long, and the distance is quadratic
  std::string best;
  // A word of one letter is as close to any other letter: nothing is meant by it.
  size_t limit = std::min(std::max<size_t>(1, word.size() / 3) + 1, word.size());
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < limit) {
      limit = distance;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string near = closest(word, names);
  return near.empty() ? "" : text("did you mean '{}'?", near);
}

}  // namespace accel
