// Unicode for tokenizers: UTF-8, character classes, case, normal forms and grapheme clusters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

struct Character {
  uint32_t code = 0;
  uint32_t bytes = 0;
};

/// The character at `at` of valid UTF-8.
Character character_at(std::string_view text, size_t at);
void append_character(std::string& out, uint32_t code);

/// Replaces each maximal invalid sequence by one U+FFFD.
std::string lossy_utf8(std::string_view bytes);

/// Unicode White_Space.
bool is_white(uint32_t code);
/// ASCII punctuation and symbols, and Unicode punctuation (P).
bool is_punctuation(uint32_t code);
bool is_numeric(uint32_t code);
/// Characters that BERT drops: control, format and private use.
bool is_dropped_control(uint32_t code);
/// CJK blocks whose characters BERT treats as words.
bool is_ideograph(uint32_t code);
/// \w: letters, marks, digits, connectors and joiners.
bool is_word_character(uint32_t code);
/// Nonspacing marks (Mn), and all marks (M).
bool is_nonspacing_mark(uint32_t code);
bool is_mark(uint32_t code);

/// Python's str.isprintable() of one character.
bool is_printable(uint32_t code);

std::string lower_case(std::string_view text);
/// str.upper(); none if it has a letter whose capital is several characters, but for the German
/// sharp s.
std::optional<std::string> upper_case(std::string_view text);

enum class NormalForm { kC, kD, kKC, kKD };
std::string normal_form(std::string_view text, NormalForm form);

/// Bytes of the grapheme cluster at `at`.
size_t grapheme_length(std::string_view text, size_t at);

}  // namespace accel
