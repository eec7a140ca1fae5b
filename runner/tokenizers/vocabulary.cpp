#include "runner/tokenizers/vocabulary.h"

#include <algorithm>

#include "core/utf8.h"
#include "runner/formats/format_error.h"

namespace accel {

void Vocabulary::reserve(size_t ids) {
  tokens_.resize(ids);
  taken_.resize(ids);
  ids_.reserve(ids);
}

void Vocabulary::add(const std::string& token, int32_t id) {
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) throw FormatError("has an id that is out of bounds");
  if (taken_[at]) {
    throw FormatError("gives id " + std::to_string(id) + " to '" + printable(tokens_[at]) +
                      "' and to '" + printable(token) + "'");
  }
  tokens_[at] = token;
  if (!ids_.emplace(tokens_[at], id).second) {
    throw FormatError("gives '" + printable(token) + "' two ids");
  }
  taken_[at] = true;
  size_ = std::max(size_, static_cast<int64_t>(id) + 1);
}

const std::string* Vocabulary::token(int64_t id) const {
  if (id < 0 || id >= size_ || !taken_[static_cast<size_t>(id)]) return nullptr;
  return &tokens_[static_cast<size_t>(id)];
}

}  // namespace accel
