// Tokenizers made from a user's own texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accel {

struct TrainingOptions {
  bool wordpiece = false;  ///< BERT's kind; else GPT-2's byte-level pairs
  bool cased = false;      ///< of WordPiece: keep capitals and accents
  int64_t vocab_size = 8000;
};

struct TrainedTokenizer {
  std::string tokenizer;   ///< text of a tokenizer.json
  std::string config;      ///< text of its tokenizer_config.json
  int64_t vocab_size = 0;  ///< less than what was asked for when the texts hold no more
};

constexpr int64_t kMostTokens = 1'000'000;

/// Learns which neighbours come often, until there are enough tokens or none come twice. The same
/// texts give the same tokenizer, in any order of theirs that keeps each whole. Throws DataError
/// when the texts hold no word, and Error of the kind for wrong usage when the size is less than
/// the single characters alone need.
TrainedTokenizer train_tokenizer(const std::vector<std::string_view>& texts,
                                 const TrainingOptions& options);

}  // namespace accel
