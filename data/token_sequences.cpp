#include "data/token_sequences.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace accel {
namespace {

/// The numbers without a copy of them.
Array moved(std::vector<int64_t>&& values) {
  auto owner = std::make_shared<const std::vector<int64_t>>(std::move(values));
  return {DType::kI64,
          {static_cast<int64_t>(owner->size())},
          reinterpret_cast<const std::byte*>(owner->data()),
          owner};
}

Array widened(const Array& all, int64_t first, int64_t length) {
  Array out(DType::kI64, {length});
  std::copy_n(all.as<int32_t>().begin() + first, length, out.mutable_as<int64_t>().begin());
  return out;
}

}  // namespace

TokenSequences::TokenSequences(Array ends, Array tokens, Array segments)
    : ends_(std::move(ends)), tokens_(std::move(tokens)), segments_(std::move(segments)) {}

int64_t TokenSequences::bytes() const {
  size_t sum = 0;
  for (const Array* part : {&ends_, &tokens_, &segments_}) sum += part->empty() ? 0 : part->bytes();
  return static_cast<int64_t>(sum);
}

int64_t TokenSequences::first_of(int64_t index) const {
  return index == 0 ? 0 : ends_.as<int64_t>()[static_cast<size_t>(index) - 1];
}

int64_t TokenSequences::length(int64_t index) const {
  return first_of(index + 1) - first_of(index);
}

Sample TokenSequences::sample(int64_t index) const {
  const int64_t first = first_of(index);
  const int64_t size = length(index);
  return {.input = widened(tokens_, first, size),
          .target = {},
          .segments = segments_.empty() ? Array() : widened(segments_, first, size)};
}

void TokenSequencesBuilder::add(std::span<const int32_t> tokens,
                                std::span<const int32_t> segments) {
  tokens_.add(tokens);
  segments_.add(segments);
  ends_.push_back(static_cast<int64_t>(tokens_.size()));
}

TokenSequences TokenSequencesBuilder::finish() && {
  if (ends_.empty()) return {};
  return {moved(std::move(ends_)), std::move(tokens_).finish(), std::move(segments_).finish()};
}

}  // namespace accel
