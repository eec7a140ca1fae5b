#include "core/diagnostic.h"

#include <algorithm>
#include <numeric>

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
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string json_text(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20) {
      out += std::string("\\u00") + kHex[u >> 4] + kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string render_all(const std::vector<Diagnostic>& all) {
  std::string text;
  for (const Diagnostic& d : all) text += render(d);
  return text;
}

}  // namespace

std::string render(const Diagnostic& d) {
  std::string out;
  const Source* source = d.where.source.get();
  const bool placed = source && d.where.line > 0;
  if (source && source->kind == Source::Kind::kArgument) {
    out += "argument " + std::to_string(source->argument) + ": ";
  } else if (source && source->kind == Source::Kind::kFile) {
    out += source->path + ':';
    if (placed) out += std::to_string(d.where.line) + ':' + std::to_string(d.where.column) + ':';
    out += ' ';
  }
  out += "error: " + d.message + '\n';
  if (placed && source->kind != Source::Kind::kDefault) {
    out += "    " + line_at(source->text, d.where.line) + '\n';
    out += std::string(static_cast<size_t>(std::max(d.where.column, 1)) + 3, ' ') + "^\n";
  }
  if (!d.hint.empty()) out += "  hint: " + d.hint + '\n';
  return out;
}

std::string render_json(const Diagnostic& d) {
  const Source* source = d.where.source.get();
  std::string out = "{\"severity\": \"error\"";
  if (source && source->kind == Source::Kind::kArgument) {
    out += ", \"argument\": " + std::to_string(source->argument);
  } else if (source && source->kind == Source::Kind::kFile) {
    out += ", \"file\": " + json_text(source->path);
  }
  if (source && d.where.line > 0) {
    out += ", \"line\": " + std::to_string(d.where.line) +
           ", \"column\": " + std::to_string(d.where.column);
  }
  out += ", \"message\": " + json_text(d.message);
  if (!d.hint.empty()) out += ", \"hint\": " + json_text(d.hint);
  return out + "}\n";
}

RecipeError::RecipeError(std::vector<Diagnostic> diagnostics)
    : Error(ExitCode::kRecipe, render_all(diagnostics)), diagnostics_(std::move(diagnostics)) {}

void Diagnostics::error(const Span& where, std::string message, std::string hint) {
  list_.push_back({where, std::move(message), std::move(hint)});
}

void Diagnostics::check() const {
  if (!list_.empty()) throw RecipeError(list_);
}

std::string closest(const std::string& word, const std::vector<std::string>& names) {
  if (word.size() > 64) return {};  // no option name is that long, and the distance is quadratic
  std::string best;
  size_t limit = std::max<size_t>(1, word.size() / 3) + 1;
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
  return near.empty() ? "" : "did you mean '" + near + "'?";
}

}  // namespace accel
