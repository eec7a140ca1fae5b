#include "parallel/canonical_order.h"

#include <ATen/Context.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "core/api/sample_rng.h"

namespace accel {

at::Tensor sum_of_gradients(const at::Tensor& a, const at::Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a.add(b);
}

void add_gradients(Gradients& sum, const Gradients& more) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum_of_gradients(sum[i], more[i]);
}

CanonicalOrder::CanonicalOrder(uint64_t seed, int64_t rank, int64_t world)
    : seed_(seed), rank_(rank), world_(world) {
  if (!std::has_single_bit(static_cast<uint64_t>(world))) {
    throw std::logic_error("a canonical sum needs a power of two of ranks");
  }
}

void CanonicalOrder::begin(const StepLayout& layout) {
  layout_ = layout;
  program_.clear();
  order_.clear();
  sums_.clear();
  next_ = 0;
  compile(rank_, world_);
  for (size_t i = 0; i < layout_.own.size(); ++i) {
    if (layout_.own[i] != kIdleMicroBatch) continue;
    order_.push_back(i);
    program_.push_back({Instruction::Kind::kIdle});
  }
  run_to_next_pass();
}

void CanonicalOrder::before_pass() const {
  const Instruction& instruction = program_[next_];
  if (instruction.kind == Instruction::Kind::kPass) seed_micro_batch(instruction.index);
}

void CanonicalOrder::after_pass(Gradients made) {
  if (program_[next_].kind == Instruction::Kind::kPass) sums_.push_back(std::move(made));
  ++next_;
  run_to_next_pass();
}

Gradients CanonicalOrder::finish() {
  Gradients own = sums_.empty() ? Gradients() : std::move(sums_.back());
  sums_.clear();
  seed_micro_batch(layout_.num_micro_batches);
  return own;
}

/// Appends the program that pushes the sum over micro-batches with index = `first` modulo `stride`.
void CanonicalOrder::compile(int64_t first, int64_t stride) {
  const int64_t count = layout_.num_micro_batches;
  if (first < count && count % stride == 0 && count / stride % 2 == 0) {
    compile(first, 2 * stride);
    compile(first + stride, 2 * stride);
    program_.push_back({Instruction::Kind::kAdd});
    return;
  }
  program_.push_back({Instruction::Kind::kNone});
  for (int64_t index = first; index < count; index += stride) {
    const auto own = std::find(layout_.own.begin(), layout_.own.end(), index);
    if (own == layout_.own.end()) continue;
    order_.push_back(static_cast<size_t>(own - layout_.own.begin()));
    program_.push_back({Instruction::Kind::kPass, index});
    program_.push_back({Instruction::Kind::kAdd});
  }
}

void CanonicalOrder::run_to_next_pass() {
  for (; next_ < program_.size(); ++next_) {
    const Instruction::Kind kind = program_[next_].kind;
    if (kind == Instruction::Kind::kPass || kind == Instruction::Kind::kIdle) return;
    if (kind == Instruction::Kind::kNone) {
      sums_.emplace_back();
      continue;
    }
    Gradients more = std::move(sums_.back());
    sums_.pop_back();
    if (sums_.back().empty()) {
      sums_.back() = std::move(more);
    } else if (!more.empty()) {
      add_gradients(sums_.back(), more);
    }
  }
}

void CanonicalOrder::seed_micro_batch(int64_t index) const {
  at::manual_seed(
      SampleRng(seed_, static_cast<uint64_t>(layout_.step), static_cast<uint64_t>(index)).next());
}

}  // namespace accel
