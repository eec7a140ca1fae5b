// Training of tokenizers from texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accel {

struct CountedWord {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

/// Merges the most frequent pair of neighbours into one symbol until `make`, which returns the
/// merged symbol, returns -1 or no pair occurs twice. Ties go to the lower ids.
void learn_merges(std::vector<CountedWord> words,
                  const std::function<int32_t(int32_t left, int32_t right)>& make);

struct TrainingOptions {
  bool wordpiece = false;  ///< WordPiece, as BERT; else byte-level BPE, as GPT-2
  bool cased = false;      ///< WordPiece: keep case and accents
  int64_t vocab_size = 8000;
  bool chatml = false;  ///< BPE: ChatML's special tokens and chat template
};

struct TrainedTokenizer {
  std::string tokenizer;   ///< text of a tokenizer.json
  std::string config;      ///< text of its tokenizer_config.json
  int64_t vocab_size = 0;  ///< at most the requested size
};

constexpr int64_t kMaxVocabSize = 1'000'000;

/// Learns merges until the vocabulary is full or no pair occurs twice. The result does not depend
/// on the order of the texts. Throws DataError for texts without words, and Error (kRecipe) when
/// the size is below the number of single characters and special tokens.
TrainedTokenizer train_tokenizer(const std::vector<std::string_view>& texts,
                                 const TrainingOptions& options);

}  // namespace accel
