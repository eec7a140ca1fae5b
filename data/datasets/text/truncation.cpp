#include "data/datasets/text/truncation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kUsualLength = 128;
constexpr auto kGiveLength = "set 'max_length', which truncates the longer text first";

/// A range of a sequence.
struct Part {
  size_t first = 0;
  size_t size = 0;
};

/// Position of a text's tokens among the special tokens, at or after `from`.
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
  throw DataError(
      accel::text(
          "a 'max_length' of {} leaves no room for a text: the tokenizer adds {} special tokens",
          max_length, special),
      "raise 'max_length'");
}

/// Removes tokens of a range until `size` remain.
void shorten(Ids& all, const Part& part, size_t size, bool from_left) {
  if (all.empty() || part.size <= size) return;
  const auto begin = all.begin() + static_cast<ptrdiff_t>(part.first);
  const auto gone = static_cast<ptrdiff_t>(part.size - size);
  const auto kept = static_cast<ptrdiff_t>(size);
  all.erase(from_left ? begin : begin + kept, from_left ? begin + gone : begin + kept + gone);
}

/// The numbers of tokens that two texts keep if `room` tokens fit.
std::pair<size_t, size_t> share(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  if (first > second) {
    const auto [shorter, longer] = share(second, first, room);
    return {longer, shorter};
  }
  const size_t shorter = std::min(first, room / 2);
  return {shorter, room - shorter};
}

/// As share(), if only one text is truncated.
std::pair<size_t, size_t> shares(size_t first, size_t second, size_t room, TruncationStrategy by) {
  if (by == TruncationStrategy::kLongestFirst) return share(first, second, room);
  const bool cuts_first = by == TruncationStrategy::kOnlyFirst;
  const size_t whole = cuts_first ? second : first;
  if (whole >= room) {
    throw DataError(
        accel::text(
            "the tokenizer's file truncates only the {} text of a pair, and nothing of it remains",
            cuts_first ? "first" : "second"),
        kGiveLength);
  }
  return cuts_first ? std::pair(room - whole, whole) : std::pair(whole, room - whole);
}

}  // namespace

KeptTokens kept_of(size_t tokens, size_t special, const TruncationConfig& cut) {
  if (tokens + special <= static_cast<size_t>(cut.max_length)) return {0, tokens};
  if (cut.strategy == TruncationStrategy::kOnlySecond) {
    throw DataError(
        "the tokenizer's file truncates only the second text of a pair, and this is a single text",
        kGiveLength);
  }
  const size_t size = room_for_text(special, cut.max_length);
  return {cut.from_left ? tokens - size : 0, size};
}

TokenPair encode_cut(const Tokenizer& tokenizer, std::string_view text,
                     const TruncationConfig& cut) {
  TokenPair all{tokenizer.encode(text), {}};
  if (all.ids.size() <= static_cast<size_t>(cut.max_length)) return all;
  const Part part = find_text(all.ids, 0, tokenizer.encode(text, /*with_special=*/false));
  const KeptTokens kept = kept_of(part.size, all.ids.size() - part.size, cut);
  shorten(all.ids, part, kept.size, cut.from_left);
  return all;
}

TokenPair encode_pair_cut(const Tokenizer& tokenizer, std::string_view first,
                          std::string_view second, const TruncationConfig& cut) {
  TokenPair all = tokenizer.encode_pair(first, second);
  if (all.ids.size() <= static_cast<size_t>(cut.max_length)) return all;
  const Part one = find_text(all.ids, 0, tokenizer.encode(first, /*with_special=*/false));
  const Part two =
      find_text(all.ids, one.first + one.size, tokenizer.encode(second, /*with_special=*/false));
  const size_t room = room_for_text(all.ids.size() - one.size - two.size, cut.max_length);
  const auto [of_first, of_second] = shares(one.size, two.size, room, cut.strategy);
  for (Ids* const ids : {&all.ids, &all.types}) {
    // The second text first: positions before it stay valid.
    shorten(*ids, two, of_second, cut.from_left);
    shorten(*ids, one, of_first, cut.from_left);
  }
  return all;
}

TruncationConfig cut_for(const Tokenizer& tokenizer, const Auto<int64_t>& max_length) {
  if (max_length) return {.max_length = *max_length};
  return tokenizer.truncation().value_or(TruncationConfig{.max_length = kUsualLength});
}

}  // namespace accel
