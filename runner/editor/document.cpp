#include "runner/editor/document.h"

#include <algorithm>
#include <cctype>

#include "core/utf8.h"

namespace accel {
namespace {

size_t line_start(std::string_view text, size_t line) {
  size_t at = 0;
  for (size_t i = 0; i < line; ++i) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return text.size();
    at = end + 1;
  }
  return at;
}

size_t line_end(std::string_view text, size_t start) {
  size_t end = std::min(text.find('\n', start), text.size());
  if (end > start && text[end - 1] == '\r') --end;
  return end;
}

/// Bytes and UTF-16 units of the character at `at`; a broken byte counts as one.
std::pair<size_t, size_t> width_of(std::string_view text, size_t at) {
  const size_t bytes = std::max<size_t>(1, character_length(text, at));
  return {bytes, bytes == 4 ? 2 : 1};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

constexpr std::string_view kFileScheme = "file://";

}  // namespace

size_t EditorDocument::offset_of(const EditorPosition& position) const {
  size_t at = line_start(text, position.line);
  const size_t end = line_end(text, at);
  for (size_t units = 0; at < end && units < position.character;) {
    const auto [bytes, more] = width_of(text, at);
    at += bytes;
    units += more;
  }
  return std::min(at, end);
}

EditorPosition EditorDocument::position_of(size_t offset) const {
  offset = std::min(offset, text.size());
  const std::string_view before = std::string_view(text).substr(0, offset);
  EditorPosition out;
  out.line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  size_t at = newline == std::string_view::npos ? 0 : newline + 1;
  while (at < offset) {
    const auto [bytes, units] = width_of(text, at);
    at += bytes;
    out.character += units;
  }
  return out;
}

size_t EditorDocument::offset_at(int line, int column) const {
  const size_t start = line_start(text, static_cast<size_t>(std::max(line, 1)) - 1);
  return std::min(start + static_cast<size_t>(std::max(column, 1)) - 1, text.size());
}

std::string path_of_uri(std::string_view uri) {
  if (!uri.starts_with(kFileScheme)) return {};
  uri.remove_prefix(kFileScheme.size());
  uri.remove_prefix(std::min(uri.find('/'), uri.size()));  // a host, as in file://localhost/
  std::string path;
  for (size_t i = 0; i < uri.size(); ++i) {
    const bool escape = uri[i] == '%' && i + 2 < uri.size() && hex_digit(uri[i + 1]) >= 0 &&
                        hex_digit(uri[i + 2]) >= 0;
    path += escape ? static_cast<char>(hex_digit(uri[i + 1]) * 16 + hex_digit(uri[i + 2])) : uri[i];
    if (escape) i += 2;
  }
  return path.find('\0') == std::string::npos ? path : std::string();
}

std::string uri_of_path(std::string_view path) {
  constexpr auto kDigits = "0123456789ABCDEF";
  std::string uri(kFileScheme);
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("/-._~").find(c) != std::string_view::npos) {
      uri += c;
    } else {
      uri += '%';
      uri += kDigits[byte / 16];
      uri += kDigits[byte % 16];
    }
  }
  return uri;
}

bool looks_like_recipe(std::string_view text) {
  for (size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    std::string_view line = text.substr(at, line_end(text, at) - at);
    if (line.starts_with('[')) line.remove_prefix(1);  // a table of TOML
    for (const std::string_view key : {"model", "data", "train", "optimizer", "recipe"}) {
      if (!line.starts_with(key)) continue;
      const size_t next = std::min(line.find_first_not_of(" !", key.size()), line.size());
      if (next < line.size() && std::string_view(":=].").find(line[next]) != line.npos) return true;
    }
  }
  return false;
}

}  // namespace accel
