#include "data/datasets/text/token_sequences.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/api/packed_sequences.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// An array that owns the vector.
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

namespace {

constexpr size_t kOpenSamples = 64;

struct OpenSample {
  int64_t number;
  PairLength room;
};

}  // namespace

Packing::Packing(int64_t count, int64_t most, const std::function<int64_t(int64_t)>& length)
    : Packing(count, PairLength{most, 0}, [&](int64_t i) {
        return PairLength{length(i), 0};
      }) {}

Packing::Packing(int64_t count, PairLength most, const std::function<PairLength(int64_t)>& length) {
  std::vector<OpenSample> open;
  std::vector<int64_t> sample_of(static_cast<size_t>(count)), sizes;
  for (int64_t i = 0; i < count; ++i) {
    const PairLength tokens = length(i);
    tokens_ += tokens.first;
    auto place = std::find_if(open.begin(), open.end(), [&](const OpenSample& sample) {
      return sample.room.first >= tokens.first && sample.room.second >= tokens.second;
    });
    if (place == open.end()) {
      if (open.size() == kOpenSamples) open.erase(open.begin());
      place = open.insert(open.end(), {static_cast<int64_t>(sizes.size()), most});
      sizes.push_back(0);
    }
    place->room.first -= tokens.first;
    place->room.second -= tokens.second;
    sample_of[static_cast<size_t>(i)] = place->number;
    ++sizes[static_cast<size_t>(place->number)];
    if (place->room.first == 0) open.erase(place);
  }
  std::vector<int64_t> next;
  for (const int64_t size : sizes) {
    next.push_back(ends_.empty() ? 0 : ends_.back());
    ends_.push_back(next.back() + size);
  }
  members_.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t& at = next[static_cast<size_t>(sample_of[static_cast<size_t>(i)])];
    members_[static_cast<size_t>(at++)] = i;
  }
}

std::span<const int64_t> Packing::members(int64_t sample) const {
  const auto number = static_cast<size_t>(sample);
  const int64_t first = number == 0 ? 0 : ends_[number - 1];
  return std::span(members_).subspan(static_cast<size_t>(first),
                                     static_cast<size_t>(ends_[number] - first));
}

void Packing::say_summary(const std::string& path, int64_t most) const {
  const int64_t room = std::max<int64_t>(size() * most, 1);
  say(text("'{}': {} texts packed into {} samples of up to {} tokens, {} % full", path,
           members_.size(), size(), most, (tokens_ * 100 + room / 2) / room));
}

Sample joined_texts(std::span<const int64_t> members, const std::function<Sample(int64_t)>& text) {
  std::vector<int64_t> input, target, segments;
  for (size_t i = 0; i < members.size(); ++i) {
    const Sample one = text(members[i]);
    const auto tokens = one.input.as<int64_t>(), wanted = one.target.as<int64_t>();
    input.insert(input.end(), tokens.begin(), tokens.end());
    target.insert(target.end(), wanted.begin(), wanted.end());
    segments.resize(input.size(), static_cast<int64_t>(i) + 1);
  }
  const auto array = [](const std::vector<int64_t>& values) {
    return Array::of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
  };
  return {array(input), array(target), array(segments)};
}

int64_t packed_segments(int64_t most) {
  return std::max(most, kMostSegmentsOfOneText) + 1;
}

void refuse_packed_groups(const std::string& column, const std::string& texts) {
  throw Error(
      ExitCode::kRecipe,
      text("'group' keeps rows with one '{}' together, but 'pack' puts several {} into a sample",
           column, texts),
      "leave out 'pack' or 'group', or name a file of eval data");
}

}  // namespace accel
