#include "data/datasets/text/characters.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

// Reads begin at the preceding mark: a compromise between time and memory.
constexpr int64_t kMarkEvery = 256;

/// Length of a valid character by its first byte.
size_t length_by_lead(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
}

}  // namespace

Characters::Characters(std::string_view text, const std::string& path) : text_(text) {
  std::set<Key> rare;
  for (size_t at = 0; at < text_.size(); ++count_) {
    if (count_ % kMarkEvery == 0) marks_.push_back(at);
    const size_t length = character_length(text_, at);
    if (length == 0) {
      throw DataError(
          accel::text("'{}' is not UTF-8 text: byte {} does not belong to any character", path, at),
          "convert it, or use 'level: bytes'");
    }
    if (length == 1) {
      present_[static_cast<size_t>(text_[at])] = true;
    } else {
      rare.insert(key_at(at));
    }
    at += length;
  }
  for (size_t code = 0; code < present_.size(); ++code) {
    if (!present_[code]) continue;
    ascii_[code] = static_cast<int64_t>(names_.size());
    names_.emplace_back(1, static_cast<char>(code));
  }
  rare_.assign(rare.begin(), rare.end());
  for (const Key key : rare_) {
    std::string name;
    for (int shift = 24; shift >= 0 && (key >> shift & 0xff) != 0; shift -= 8) {
      name += static_cast<char>(key >> shift & 0xff);
    }
    names_.push_back(name);
  }
}

Characters::Key Characters::key_at(size_t at) const {
  Key key = 0;
  const size_t length = length_by_lead(text_[at]);
  for (size_t i = 0; i < length; ++i) {
    key |= static_cast<Key>(static_cast<unsigned char>(text_[at + i])) << (24 - 8 * i);
  }
  return key;
}

int64_t Characters::id_of(Key key) const {
  const auto found = std::lower_bound(rare_.begin(), rare_.end(), key);
  return static_cast<int64_t>(names_.size() - static_cast<size_t>(rare_.end() - found));
}

void Characters::read(int64_t first, std::span<int64_t> ids) const {
  size_t at = marks_[static_cast<size_t>(first / kMarkEvery)];
  for (int64_t skip = first % kMarkEvery; skip > 0; --skip) at += length_by_lead(text_[at]);
  for (int64_t& id : ids) {
    const auto lead = static_cast<unsigned char>(text_[at]);
    id = lead < 0x80 ? ascii_[lead] : id_of(key_at(at));
    at += length_by_lead(text_[at]);
  }
}

}  // namespace accel
