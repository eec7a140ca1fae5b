#include "data/loader/host_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/rows.h"

namespace accel {
namespace {

std::string describe(const Array& value) {
  if (value.empty()) return "none";
  return text("{} {}", name_of(value.type()), to_string(value.shape()));
}

bool fits(const Array& value, const Array& stack) {
  if (value.empty() || stack.empty()) return value.empty() && stack.empty();
  return value.type() == stack.type() && std::equal(value.shape().begin(), value.shape().end(),
                                                    stack.shape().begin() + 1, stack.shape().end());
}

Array first_of(const Array& stack) {
  if (stack.empty()) return stack;
  return {stack.type(), Shape(stack.shape().begin() + 1, stack.shape().end()), stack.data(),
          stack.owner()};
}

bool is_sequence(const Array& value) {
  return value.type() == DType::kI64 && value.shape().size() == 1 && value.count() > 0;
}

/// Whether a target has a value for each token; numbers, and answers of question_windows.h, are of
/// the whole sample.
bool is_of_tokens(const Array& target) {
  return target.type() == DType::kI64 && target.shape() != Shape{1, 2};
}

/// Throws unless input, segments and, by `target_length`, target of a padded sample have one
/// length.
void require_sequence(const Sample& sample, TargetLength target_length, int64_t id) {
  if (!is_sequence(sample.input)) {
    throw DataError(
        text("the input of sample {} is {}, not a sequence of tokens", id, describe(sample.input)),
        "samples of unequal length are I64 [length], with a token at least");
  }
  const auto check = [&](const char* part, const Array& value) {
    if (value.empty() || value.shape().empty() || value.shape() == sample.input.shape()) return;
    throw DataError(text("{} of sample {} is {}, but its input is {}", part, id, describe(value),
                         describe(sample.input)));
  };
  if (target_length == TargetLength::kOwn) {
    if (is_sequence(sample.target)) return check("the division into texts", sample.segments);
    throw DataError(text("the target of sample {} is {}, not a sequence of tokens", id,
                         describe(sample.target)),
                    "targets of unequal length are I64 [length], with a token at least");
  }
  if (is_of_tokens(sample.target)) check("the target", sample.target);
  check("the division into texts", sample.segments);
}

/// `value` padded with `fill` to `length`; unchanged if it is not a sequence.
Array lengthened(const Array& value, int64_t length, int64_t fill) {
  if (value.empty() || value.shape().empty() || value.count() == length) return value;
  if (!is_of_tokens(value)) return value;
  Array out(value.type(), {length});
  const auto from = value.as<int64_t>();
  const auto to = out.mutable_as<int64_t>();
  std::fill(std::copy(from.begin(), from.end(), to.begin()), to.end(), fill);
  return out;
}

}  // namespace

Collator::Collator(int64_t size, std::optional<Padding> padding, TargetLength target_length)
    : size_(size), padding_(padding), target_length_(target_length) {
  batch_.ids.reserve(static_cast<size_t>(size));
}

void Collator::add(const Sample& sample, int64_t id) {
  if (!padding_) return stack(sample, id);
  require_sequence(sample, target_length_, id);
  held_.push_back({sample, id});
}

HostBatch Collator::finish() && {
  if (!padding_) return std::move(batch_);
  const int64_t length = padded_length(&Sample::input);
  const bool is_own = target_length_ == TargetLength::kOwn;
  const int64_t target_length = is_own ? padded_length(&Sample::target) : length;
  batch_.lengths = Array(DType::kI64, {size_});
  for (size_t i = 0; i < held_.size(); ++i) {
    const auto& [sample, id] = held_[i];
    batch_.lengths.mutable_as<int64_t>()[i] = sample.input.count();
    stack({lengthened(sample.input, length, padding_->input),
           lengthened(sample.target, target_length, kIgnoredTarget),
           lengthened(sample.segments, length, 0)},
          id);
  }
  return std::move(batch_);
}

int64_t Collator::padded_length(Array Sample::*part) const {
  int64_t longest = 1;
  for (const Held& held : held_) longest = std::max(longest, (held.sample.*part).count());
  return (longest - 1) / padding_->multiple * padding_->multiple + padding_->multiple;
}

void Collator::stack(const Sample& sample, int64_t id) {
  batch_.ids.push_back(id);
  put("input", sample.input, batch_.inputs);
  put("target", sample.target, batch_.targets);
  put("segments", sample.segments, batch_.segments);
}

void Collator::put(const char* part, const Array& value, Array& stack) {
  const size_t row = batch_.ids.size() - 1;
  if (row == 0 && !value.empty()) {
    Shape shape = {size_};
    shape.insert(shape.end(), value.shape().begin(), value.shape().end());
    stack = Array(value.type(), std::move(shape));
  }
  if (!fits(value, stack)) {
    throw DataError(
        text("the {} of sample {} is {}, but that of sample {} in the same batch is {}", part,
             batch_.ids.back(), describe(value), batch_.ids.front(), describe(first_of(stack))),
        "bring all samples to one shape with a transform, or use batches of one");
  }
  if (value.bytes() > 0) {
    std::memcpy(stack.mutable_data() + row * value.bytes(), value.data(), value.bytes());
  }
}

namespace {

/// An array for `samples` rows like those of `all`, as `type`; reuses `done` if it fits and is not
/// shared.
Array stack_for(const Array& all, DType type, int64_t samples, Array done) {
  const Shape &rows = all.shape(), &shape = done.shape();
  const bool fits = !done.empty() && done.type() == type && shape.size() == rows.size() &&
                    shape[0] == samples &&
                    std::equal(shape.begin() + 1, shape.end(), rows.begin() + 1);
  if (fits && done.is_only_owner()) return done;
  Shape stacked = rows;
  stacked[0] = samples;
  return Array(type, std::move(stacked));
}

Array stacked_rows(const Array& all, bool unit_range, const std::vector<int64_t>& ids, Array done) {
  const DType type = unit_range ? DType::kF32 : all.type();
  Array out = stack_for(all, type, static_cast<int64_t>(ids.size()), std::move(done));
  const auto row = static_cast<size_t>(out.count()) / ids.size();
  std::byte* to = out.mutable_data();
  for (const int64_t id : ids) {
    const std::byte* const from = all.data() + static_cast<size_t>(id) * row * size_of(all.type());
    if (unit_range) {
      put_unit_range(from, static_cast<int64_t>(row), reinterpret_cast<float*>(to));
    } else if (row > 0) {
      std::memcpy(to, from, row * size_of(type));
    }
    to += row * size_of(type);
  }
  return out;
}

}  // namespace

HostBatch column_batch(const Columns& columns, std::vector<int64_t> ids, HostBatch done) {
  HostBatch out{
      .inputs = stacked_rows(columns.inputs, columns.unit_range, ids, std::move(done.inputs)),
      .targets = stacked_rows(columns.targets, false, ids, std::move(done.targets)),
      .ids = {}};
  out.ids = std::move(ids);
  return out;
}

}  // namespace accel
