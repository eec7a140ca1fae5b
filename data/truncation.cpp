#include "data/truncation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kUsualLength = 128;
constexpr auto kGiveLength = "give 'max_length', so that the longer text is cut first";

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

size_t room_for_text(size_t special, int64_t max_length) {
  const auto most = static_cast<size_t>(max_length);
  if (special < most) return most - special;
  throw DataError("a 'max_length' of " + std::to_string(max_length) +
                      " leaves no room for a text: the tokenizer adds " + std::to_string(special) +
                      " special tokens",
                  "raise 'max_length'");
}

/// Takes away tokens of a part, so that `size` of it stay.
void shorten(Ids& all, const Part& part, size_t size, bool from_left) {
  if (all.empty() || part.size <= size) return;
  const auto begin = all.begin() + static_cast<ptrdiff_t>(part.first);
  const auto gone = static_cast<ptrdiff_t>(part.size - size);
  const auto kept = static_cast<ptrdiff_t>(size);
  all.erase(from_left ? begin : begin + kept, from_left ? begin + gone : begin + kept + gone);
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

/// As share(), where one text alone is to be cut.
std::pair<size_t, size_t> shares(size_t first, size_t second, size_t room, CutShare by) {
  if (by == CutShare::kLongestFirst) return share(first, second, room);
  const bool cuts_first = by == CutShare::kOnlyFirst;
  const size_t whole = cuts_first ? second : first;
  if (whole >= room) {
    throw DataError("the tokenizer's file lets only the " +
                        std::string(cuts_first ? "first" : "second") +
                        " text of a pair be cut, and the other one leaves nothing of it",
                    kGiveLength);
  }
  return cuts_first ? std::pair(room - whole, whole) : std::pair(whole, room - whole);
}

}  // namespace

KeptTokens kept_of(size_t tokens, size_t special, const TextCut& cut) {
  if (tokens + special <= static_cast<size_t>(cut.max_length)) return {0, tokens};
  if (cut.share == CutShare::kOnlySecond) {
    throw DataError(
        "the tokenizer's file lets only the second text of a pair be cut, and this is "
        "a text alone",
        kGiveLength);
  }
  const size_t size = room_for_text(special, cut.max_length);
  return {cut.from_left ? tokens - size : 0, size};
}

TokenPair encode_cut(const Tokenizer& tokenizer, std::string_view text, const TextCut& cut) {
  TokenPair all{tokenizer.encode(text), {}};
  if (all.ids.size() <= static_cast<size_t>(cut.max_length)) return all;
  const Part part = find_text(all.ids, 0, tokenizer.encode(text, /*with_special=*/false));
  const KeptTokens kept = kept_of(part.size, all.ids.size() - part.size, cut);
  shorten(all.ids, part, kept.size, cut.from_left);
  return all;
}

TokenPair encode_pair_cut(const Tokenizer& tokenizer, std::string_view first,
                          std::string_view second, const TextCut& cut) {
  TokenPair all = tokenizer.encode_pair(first, second);
  if (all.ids.size() <= static_cast<size_t>(cut.max_length)) return all;
  const Part one = find_text(all.ids, 0, tokenizer.encode(first, /*with_special=*/false));
  const Part two =
      find_text(all.ids, one.first + one.size, tokenizer.encode(second, /*with_special=*/false));
  const size_t room = room_for_text(all.ids.size() - one.size - two.size, cut.max_length);
  const auto [of_first, of_second] = shares(one.size, two.size, room, cut.share);
  for (Ids* const ids : {&all.ids, &all.types}) {
    shorten(*ids, two, of_second, cut.from_left);  // from the back: what lies before stays there
    shorten(*ids, one, of_first, cut.from_left);
  }
  return all;
}

TextCut cut_for(const Tokenizer& tokenizer, const Auto<int64_t>& max_length) {
  if (max_length) return {.max_length = *max_length};
  return tokenizer.cut().value_or(TextCut{.max_length = kUsualLength});
}

}  // namespace accel
