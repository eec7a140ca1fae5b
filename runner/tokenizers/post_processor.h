// What is put around and between texts: the 'post_processor' of a tokenizer.json.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/tokenizers/json_place.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

/// A place in a sequence: the ids of a text, or fixed ones.
struct SequencePiece {
  enum class From { kFirst, kSecond, kFixed };
  From source = From::kFirst;
  int32_t type = 0;
  std::vector<int32_t> ids;  ///< of kFixed
};

/// How one text and two become a sequence.
class PostProcessor {
 public:
  /// Nothing is added.
  PostProcessor();
  /// The object 'post_processor', or a null. Throws FormatError that names the place.
  static PostProcessor read(const JsonPlace& place);

  std::vector<int32_t> single(std::vector<int32_t> ids) const;
  TokenPair pair(const std::vector<int32_t>& first, const std::vector<int32_t>& second) const;

 private:
  void read_template(const JsonPlace& place);
  void read_around(const JsonPlace& place, bool roberta);
  void read_sequence(const JsonPlace& place);

  std::vector<SequencePiece> single_;
  std::vector<SequencePiece> pair_;
};

}  // namespace accel
