#include "formats/records/conll.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr std::string_view kDocumentStart = "-DOCSTART-";
constexpr size_t kConllUColumns = 10;
constexpr size_t kUpos = 3;

/// The next line without its end.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == line.npos;
}

std::vector<std::string_view> columns_of(std::string_view line) {
  const bool tabs = line.find('\t') != line.npos;
  std::vector<std::string_view> columns;
  while (!line.empty()) {
    const size_t end = std::min(line.find(tabs ? '\t' : ' '), line.size());
    if (tabs || end > 0) columns.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return columns;
}

bool is_id(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

/// "3-4" of a multiword token, "8.1" of an empty node.
bool is_id_range(std::string_view word) {
  const size_t mark = word.find_first_of("-.");
  return mark != word.npos && is_id(word.substr(0, mark)) && is_id(word.substr(mark + 1));
}

/// "O", "B-PER", "I-geo", "NNP", "PRP$", "``", "_": labels, and no words of prose.
bool is_tag(std::string_view word) {
  const bool chunk = word.size() > 2 && (word[1] == '-' || word[1] == '_') &&
                     std::string_view("BILOUESM").find(word[0]) != std::string_view::npos;
  if (chunk) return true;
  if (word.front() >= '0' && word.front() <= '9') return false;
  return std::none_of(word.begin(), word.end(),
                      [](unsigned char c) { return (c >= 'a' && c <= 'z') || c >= 0x80; });
}

/// Whether the last columns look like tags: few, repeated, and not all without letters.
bool are_tags(const std::vector<ConllToken>& tokens) {
  std::set<std::string_view> tags;
  bool letters = false;
  for (const ConllToken& token : tokens) {
    const std::string_view tag = token.columns.back();
    if (!is_tag(tag)) return false;
    letters = letters || (tag.front() >= 'A' && tag.front() <= 'Z');
    tags.insert(tag);
  }
  return letters && tags.size() >= 2 && tags.size() * 2 <= tokens.size();
}

std::vector<ConllToken> tokens_of(std::string_view text, const std::string& comment, bool has_ids,
                                  size_t& sentences) {
  std::vector<ConllToken> all, sentence;
  ConllReader reader(text, comment, has_ids);
  for (sentences = 0; reader.next(sentence); ++sentences) {
    all.insert(all.end(), sentence.begin(), sentence.end());
  }
  return all;
}

}  // namespace

ConllReader::ConllReader(std::string_view text, std::string comment, bool has_ids)
    : text_(text), comment_(std::move(comment)), has_ids_(has_ids) {
  if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
}

bool ConllReader::is_skipped(std::string_view line) const {
  return line.starts_with(kDocumentStart) || (!comment_.empty() && line.starts_with(comment_)) ||
         (has_ids_ && is_id_range(line.substr(0, line.find('\t'))));
}

bool ConllReader::next(std::vector<ConllToken>& sentence) {
  sentence.clear();
  while (!text_.empty()) {
    const std::string_view line = take_line(text_);
    ++line_;
    if (is_blank(line)) {
      if (!sentence.empty()) return true;
    } else if (!is_skipped(line)) {
      sentence.push_back({columns_of(line), line_});
    }
  }
  return !sentence.empty();
}

bool detect_conll(std::string_view text, ConllFormat& format) {
  constexpr size_t kLook = 64 << 10, kLeastTokens = 10;
  if (text.size() > kLook) text = text.substr(0, text.rfind('\n', kLook) + 1);
  size_t sentences = 0;
  std::vector<ConllToken> tokens = tokens_of(text, "#", true, sentences);
  const auto is_numbered = [](const ConllToken& token) {
    return token.columns.size() == kConllUColumns && is_id(token.columns.front());
  };
  if (!tokens.empty() && std::all_of(tokens.begin(), tokens.end(), is_numbered)) {
    format = {kConllUColumns, 1, kUpos, "#"};
    return true;
  }
  tokens = tokens_of(text, "", false, sentences);
  const bool one_sentence = sentences < 2 && !text.starts_with(kDocumentStart);
  if (tokens.size() < kLeastTokens || one_sentence) return false;
  std::map<size_t, size_t> widths;
  for (const ConllToken& token : tokens) ++widths[token.columns.size()];
  const size_t columns =
      std::max_element(widths.begin(), widths.end(), [](const auto& one, const auto& other) {
        return one.second < other.second;
      })->first;
  // Some lines may be faulty: whoever reads the file reports them.
  const size_t found = tokens.size();
  std::erase_if(tokens, [&](const ConllToken& token) { return token.columns.size() != columns; });
  if (columns < 2 || tokens.size() * 20 < found * 19 || !are_tags(tokens)) return false;
  format = {columns, 0, columns - 1, ""};
  return true;
}

}  // namespace accel
