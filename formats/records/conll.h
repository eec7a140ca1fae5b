// Reader of CoNLL text: a token per line with its columns, and blank lines between sentences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// A token's columns. Views into the text.
struct ConllToken {
  std::vector<std::string_view> columns;
  int64_t line = 0;  ///< from 1
};

/// Splits a text into sentences. The columns of a line are separated by tabs if it has any,
/// otherwise by spaces. Skips a byte order mark, lines that begin with `-DOCSTART-`, comments, and
/// CoNLL-U's lines of multiword tokens (`3-4`) and empty nodes (`8.1`) in files with ids.
class ConllReader {
 public:
  /// `text` must outlive the tokens. Lines that begin with `comment` are skipped; empty: none.
  /// `has_ids`: the first column numbers the tokens.
  ConllReader(std::string_view text, std::string comment, bool has_ids);

  /// The tokens of the next sentence, at least one; false at the end.
  bool next(std::vector<ConllToken>& sentence);

 private:
  bool is_skipped(std::string_view line) const;

  std::string_view text_;
  std::string comment_;
  bool has_ids_;
  int64_t line_ = 0;
};

/// What the first lines of a text show.
struct ConllFormat {
  size_t columns = 0;
  size_t word_column = 0;
  size_t tag_column = 0;
  std::string comment;  ///< "#" in CoNLL-U; empty elsewhere
};

/// Whether a text is in CoNLL format by its first 64 KiB: an equal number of columns in nearly all
/// lines, sentences, and a last column of tags (or CoNLL-U's ten columns, of which UPOS is the
/// tag). Returns false for prose, tables and other texts.
bool detect_conll(std::string_view text, ConllFormat& format);

}  // namespace accel
