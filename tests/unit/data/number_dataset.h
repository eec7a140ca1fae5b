// Datasets of plain numbers, for tests of what is done with datasets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/api/dataset.h"

namespace accel {

/// Sample i is the pair of vectors [first + i, first + i] and label first + i.
class NumberDataset : public Dataset {
 public:
  explicit NumberDataset(int64_t size, int64_t first = 0) : size_(size), first_(first) {}

  int64_t size() const override { return size_; }
  Sample sample(int64_t index) const override {
    const auto value = static_cast<float>(first_ + index);
    const float pair[] = {value, value};
    return {Array::of<float>(DType::kF32, {2}, pair), Array::label(first_ + index)};
  }
  DataShape shape() const override {
    return {.input = {2}, .target = {}, .classes = 10, .labels = {}};
  }
  std::string fingerprint() const override {
    return std::to_string(first_) + "-" + std::to_string(first_ + size_);
  }

 private:
  int64_t size_;
  int64_t first_;
};

/// A NumberDataset whose samples pass through a function of the test.
class ChangedDataset final : public NumberDataset {
 public:
  using Change = std::function<Sample(int64_t, Sample)>;
  ChangedDataset(int64_t size, Change change) : NumberDataset(size), change_(std::move(change)) {}

  Sample sample(int64_t index) const override {
    return change_(index, NumberDataset::sample(index));
  }

 private:
  Change change_;
};

}  // namespace accel
