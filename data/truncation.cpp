#include "data/truncation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

using Ids = std::vector<int32_t>;

/// A stretch of a sequence.
struct Part {
  size_t first = 0;
  size_t size = 0;
};

/// Where the tokens of a text lie among the special ones, at or behind `from`.
Part find_text(const Ids& all, size_t from, const Ids& text) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(from);
  const auto found = std::search(begin, all.end(), text.begin(), text.end());
  if (found == all.end() && !text.empty()) {
    throw DataError("the tokenizer changes a text's tokens when it adds the special ones",
                    "raise 'max_length', so that the text need not be cut");
  }
  return {static_cast<size_t>(found - all.begin()), text.size()};
}

/// Takes away the last tokens of a part, so that `size` of it stay.
void cut(Ids& all, const Part& part, size_t size) {
  if (all.empty() || part.size <= size) return;
  const auto begin = all.begin() + static_cast<ptrdiff_t>(part.first);
  all.erase(begin + static_cast<ptrdiff_t>(size), begin + static_cast<ptrdiff_t>(part.size));
}

/// How many tokens of two texts stay when `room` do.
std::pair<size_t, size_t> share(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  if (first > second) {
    const auto [shorter, longer] = share(second, first, room);
    return {longer, shorter};
  }
  const size_t shorter = std::min(first, room / 2);
  return {shorter, room - shorter};
}

}  // namespace

size_t room_for_text(size_t special, int64_t max_length) {
  const auto most = static_cast<size_t>(max_length);
  if (special < most) return most - special;
  throw DataError("a 'max_length' of " + std::to_string(max_length) +
                      " leaves no room for a text: the tokenizer adds " + std::to_string(special) +
                      " special tokens",
                  "raise 'max_length'");
}

TokenPair encode_cut(const Tokenizer& tokenizer, std::string_view text, int64_t max_length) {
  TokenPair all{tokenizer.encode(text), {}};
  if (all.ids.size() <= static_cast<size_t>(max_length)) return all;
  const Ids plain = tokenizer.encode(text, /*with_special=*/false);
  const Part part = find_text(all.ids, 0, plain);
  cut(all.ids, part, room_for_text(all.ids.size() - part.size, max_length));
  return all;
}

TokenPair encode_pair_cut(const Tokenizer& tokenizer, std::string_view first,
                          std::string_view second, int64_t max_length) {
  TokenPair all = tokenizer.encode_pair(first, second);
  if (all.ids.size() <= static_cast<size_t>(max_length)) return all;
  const Part one = find_text(all.ids, 0, tokenizer.encode(first, /*with_special=*/false));
  const Part two =
      find_text(all.ids, one.first + one.size, tokenizer.encode(second, /*with_special=*/false));
  const size_t room = room_for_text(all.ids.size() - one.size - two.size, max_length);
  const auto [of_first, of_second] = share(one.size, two.size, room);
  for (Ids* const ids : {&all.ids, &all.types}) {
    cut(*ids, two, of_second);  // from the back, so that what lies before keeps its place
    cut(*ids, one, of_first);
  }
  return all;
}

}  // namespace accel
