// Drafts for CoNLL files: token classification of their words.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/records/conll.h"
#include "runner/draft/recipe_draft.h"
#include "runner/draft/text_model.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTags = 1000;

/// Sentences, words and the values of each column of a file.
struct SniffedConll {
  int64_t sentences = 0;
  int64_t words = 0;
  std::vector<std::map<std::string, int64_t>> values;  ///< up to kMostTags + 1 of each column
  std::vector<std::string> examples;                   ///< the first value of each column
};

[[noreturn]] void throw_uneven_line(const fs::path& path, const ConllToken& token, size_t wanted) {
  throw DataError(
      text("{}:{} has {} of {} columns", path.string(), token.line, token.columns.size(), wanted),
      "a word and its tags are wanted in each line, and a blank line between sentences");
}

SniffedConll sniff_conll(const fs::path& path, const ConllFormat& format) {
  const SharedBytes file = map_file(path.string());
  const std::string_view content = as_text(file.view);
  if (const std::optional<size_t> bad = first_unreadable(content)) {
    const auto line =
        std::count(content.begin(), content.begin() + static_cast<ptrdiff_t>(*bad), '\n');
    throw DataError(text("{}:{} is not UTF-8", path.string(), line + 1),
                    text("convert it: iconv -f latin1 -t utf-8 {} > utf8.txt", shell_word(path)));
  }
  SniffedConll out;
  out.values.resize(format.columns);
  ConllReader reader(content, format.comment, format.word_column > 0);
  for (std::vector<ConllToken> sentence; reader.next(sentence); ++out.sentences) {
    for (const ConllToken& token : sentence) {
      if (token.columns.size() != format.columns) throw_uneven_line(path, token, format.columns);
      for (size_t i = 0; i < token.columns.size(); ++i) {
        if (out.words == 0) out.examples.emplace_back(token.columns[i]);
        auto& values = out.values[i];
        if (values.size() <= kMostTags) ++values[std::string(token.columns[i])];
      }
      ++out.words;
    }
  }
  return out;
}

/// The wished column of tags, or that of the format.
size_t tag_column_of(const fs::path& path, const ConllFormat& format, const std::string& wished) {
  if (wished.empty()) return format.tag_column;
  size_t column = 0;
  const auto [end, error] = std::from_chars(wished.data(), wished.data() + wished.size(), column);
  const bool whole = error == std::errc() && end == wished.data() + wished.size();
  if (whole && column < format.columns && column != format.word_column) return column;
  throw Error(ExitCode::kRecipe,
              text("'--target {}': no column of tags of '{}'", wished, path.string()),
              text("the columns are numbered from 0 to {}, and {} has the words",
                   format.columns - 1, format.word_column));
}

bool are_entity_tags(const std::map<std::string, int64_t>& tags) {
  return std::all_of(tags.begin(), tags.end(), [](const auto& tag) {
    return tag.first == "O" || tag.first.starts_with("B-") || tag.first.starts_with("I-");
  });
}

/// The columns with their values and their use.
void note_columns(const SniffedConll& found, const ConllFormat& format, size_t tags,
                  RecipeDraft& draft) {
  std::vector<std::vector<std::string>> table = {{"column", "values", "first", "use"}};
  for (size_t i = 0; i < format.columns; ++i) {
    const size_t values = found.values[i].size();
    table.push_back({std::to_string(i), values > kMostTags ? "many" : std::to_string(values),
                     printable(found.examples[i]),
                     i == format.word_column ? "words"
                     : i == tags             ? "tags"
                                             : "not used"});
  }
  for (std::string& line : aligned_rows(table)) draft.findings.push_back("  " + line);
}

void note_tags(const SniffedConll& found, size_t column, const fs::path& path, RecipeDraft& draft) {
  constexpr size_t kPrinted = 10;
  const auto& tags = found.values[column];
  if (tags.size() < 2 || tags.size() > kMostTags) {
    throw DataError(
        text("column {} of '{}' has {}: 2 to {} tags can be predicted", column, path.string(),
             tags.size() > kMostTags ? "more values" : "one value", kMostTags),
        "name another column with --target");
  }
  std::vector<std::string> parts;
  for (const auto& [tag, count] : tags) {
    if (parts.size() < kPrinted) parts.push_back(text("'{}' {}", printable(tag), count));
  }
  if (tags.size() > kPrinted) parts.push_back("...");
  draft.findings.push_back(
      text("predicts the tag of each word, one of {}: {}", tags.size(), joined(parts)));
}

/// The tags of the training and the eval file, so that both have the same numbers.
std::vector<std::string> all_tags(const SniffedConll& train,
                                  const std::optional<SniffedConll>& eval, size_t column) {
  std::set<std::string> names;
  for (const auto& [tag, count] : train.values[column]) names.insert(tag);
  if (eval) {
    for (const auto& [tag, count] : eval->values[column]) names.insert(tag);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> dataset_lines(const fs::path& file, const ConllFormat& format, size_t tags,
                                       const std::vector<std::string>& labels,
                                       const std::string& length) {
  std::vector<std::string> lines = {"type: conll", "path: " + in_data(file.filename().string()),
                                    text("word_column: {}", format.word_column),
                                    text("tag_column: {}", tags)};
  if (!format.comment.empty()) lines.push_back("comment: " + yaml_text(format.comment));
  append_lines(lines, list_lines("labels", yaml_texts(labels)));
  append_lines(lines, {kTokenizerLine, length});
  return lines;
}

}  // namespace

bool is_conll(const fs::path& path) {
  const SharedBytes file = map_file(path.string());
  ConllFormat format;
  return detect_conll(as_text(file.view), format);
}

RecipeDraft draft_conll(const fs::path& path, const DraftRequest& request) {
  ConllFormat format;
  {
    const SharedBytes file = map_file(path.string());
    detect_conll(as_text(file.view), format);
  }
  const size_t tags = tag_column_of(path, format, request.target);
  const SniffedConll found = sniff_conll(path, format);
  RecipeDraft draft;
  const std::string name = printable(path.filename().string());
  draft.title = text("Tags the words of {}.", name);
  draft.folder = folder_of(path);
  draft.findings.push_back(text("{}: {} format, {} sentences of {} words, {} columns", name,
                                format.comment.empty() ? "CoNLL" : "CoNLL-U", found.sentences,
                                found.words, format.columns));
  note_columns(found, format, tags, draft);
  note_tags(found, tags, path, draft);
  choose_text_model(draft, request,
                    {.kind = TextModelKind::kLabels,
                     .file = path,
                     .fields = {std::to_string(format.word_column)},
                     .cased = true,
                     .samples = found.sentences});
  draft.task = "token_classification";
  draft.metric = are_entity_tags(found.values[tags]) ? "entity_f1, accuracy" : "accuracy";
  const fs::path other = eval_file(path);
  std::optional<SniffedConll> eval;
  if (!other.empty()) eval = sniff_conll(other, format);
  const std::vector<std::string> labels = all_tags(found, eval, tags);
  const std::string length = max_length_line(draft, 128, "tokens; longer sentences are cut");
  draft.train = dataset_lines(path, format, tags, labels, length);
  if (eval) {
    draft.eval = dataset_lines(other, format, tags, labels, length);
    draft.findings.push_back(
        text("eval: the sentences of {}", printable(other.filename().string())));
  } else {
    hold_out(draft, found.sentences);
  }
  if (format.columns > 2) draft.others.push_back("the tags of another column: --target NUMBER");
  draft.others.push_back("a language model of the file's characters: --as text");
  return draft;
}

}  // namespace accel
