// Positions of tokens in the text that they encode.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace accel {

/// How tokens are spelled: what their spelling says of the text.
struct TokenSpelling {
  bool byte_level = false;  ///< characters stand for bytes, as in GPT-2
  std::string prefix = {};  ///< of tokens that continue a word, such as "##"
  std::string suffix = {};  ///< of tokens that end a word, such as "</w>"
};

/// The spans in `text` of tokens in order, found by their spellings. White space that no token
/// spells is in no span. A token whose spelling is not in the text, because a normalizer rewrote it
/// or it is the unknown token, has the text between its neighbours. Of the tokens of one
/// character's bytes, each has its own bytes.
std::vector<TokenSpan> align_tokens(std::string_view text, const std::vector<std::string>& tokens,
                                    const TokenSpelling& spelling);

}  // namespace accel
