// Characters as tokenizers see them: UTF-8, kinds of characters, case and normal forms.
#pragma once

#include <cstdint>
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

/// Each run of bytes that is no UTF-8, up to where a character could begin, as one U+FFFD.
std::string lossy_utf8(std::string_view bytes);

/// White space as Unicode has it.
bool is_white(uint32_t code);
/// ASCII's punctuation and symbols, and the punctuation of all other scripts.
bool is_punctuation(uint32_t code);
bool is_numeric(uint32_t code);
/// What BERT drops: control, format and private characters.
bool is_dropped_control(uint32_t code);
/// The blocks of ideographs that BERT takes for words of their own.
bool is_ideograph(uint32_t code);
/// What words are made of: letters, marks, digits, connectors and joiners.
bool is_word_character(uint32_t code);
/// Marks that take no room of their own (Mn), and marks of any sort (M).
bool is_nonspacing_mark(uint32_t code);
bool is_mark(uint32_t code);

std::string lower_case(std::string_view text);

enum class NormalForm { kC, kD, kKC, kKD };
std::string normal_form(std::string_view text, NormalForm form);

/// Bytes of the cluster at `at` that readers take for one character.
size_t grapheme_length(std::string_view text, size_t at);

}  // namespace accel
