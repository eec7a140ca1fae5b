#include "text/pretrained/vocabulary_files.h"

#include <algorithm>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "text/json_node.h"
#include "text/unicode.h"

namespace accel {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr auto kWords = "vocab.txt", kVocabulary = "vocab.json", kMerges = "merges.txt";

std::string text_of(const fs::path& file, std::string& sources) {
  const SharedBytes bytes = map_file(file.string());
  std::string content(as_text(bytes.view));
  if (lossy_utf8(content) != content) {
    throw DataError(text("'{}' is not UTF-8", file.string()),
                    text("convert it: iconv -f latin1 -t utf-8 {} > utf8.txt", file.string()));
  }
  sources += content;
  return content;
}

/// The lines, without their ends.
std::vector<std::string_view> lines_of(std::string_view content) {
  std::vector<std::string_view> lines;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

/// Without Unicode white space at the end.
std::string trimmed_end(std::string_view line) {
  size_t kept = 0;
  for (size_t at = 0; at < line.size();) {
    const Character character = character_at(line, at);
    at += character.bytes;
    if (!is_white(character.code)) kept = at;
  }
  return std::string(line.substr(0, kept));
}

/// A token per line; its id is the number of the line, of repeated ones the last.
json numbered_lines(const std::string& content) {
  json vocabulary = json::object();
  int64_t id = 0;
  for (const std::string_view line : lines_of(content)) vocabulary[trimmed_end(line)] = id++;
  return vocabulary;
}

json merges_of(const std::string& content, const fs::path& file) {
  json merges = json::array();
  int64_t number = 0;
  for (const std::string_view line : lines_of(content)) {
    ++number;
    if (line.starts_with("#version")) continue;
    if (std::count(line.begin(), line.end(), ' ') != 1) {
      throw DataError(text("'{}' has no pair of tokens in line {}", file.string(), number),
                      "a merge is two tokens with a space between them");
    }
    merges.push_back(std::string(line));
  }
  return merges;
}

}  // namespace

bool has_vocabulary_files(const fs::path& folder, const ClassPipeline& pipeline) {
  std::error_code error;
  if (pipeline.reads_merges) {
    return fs::exists(folder / kVocabulary, error) && fs::exists(folder / kMerges, error);
  }
  return std::string_view(pipeline.model) == "WordPiece" && fs::exists(folder / kWords, error);
}

json read_vocabulary_files(const fs::path& folder, const ClassPipeline& pipeline,
                           std::string& sources) {
  json model = {{"type", pipeline.model}};
  if (!pipeline.reads_merges) {
    model["vocab"] = numbered_lines(text_of(folder / kWords, sources));
    return {{"model", std::move(model)}};
  }
  const fs::path vocabulary = folder / kVocabulary, merges = folder / kMerges;
  try {
    model["vocab"] = read_json_tree(text_of(vocabulary, sources));
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", vocabulary.string(), error.what()));
  }
  model["merges"] = merges_of(text_of(merges, sources), merges);
  return {{"model", std::move(model)}};
}

}  // namespace accel
