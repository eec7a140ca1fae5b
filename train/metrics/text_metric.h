// Metrics of generated texts.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "core/api/metric.h"

namespace accel {

/// A metric of the texts of output tokens and target tokens, int64 [samples, length] each, padded
/// with kIgnoredTarget.
class TextMetric : public Metric {
 public:
  /// The text of tokens, without special ones.
  using Decode = std::function<std::string(std::span<const int64_t> tokens)>;

  /// Called once, before the first update().
  void set_decode(Decode decode) { decode_ = std::move(decode); }
  void update(const EvalStep& step) final;
  bool higher_is_better() const override { return true; }

  virtual void add(const std::string& prediction, const std::string& reference) = 0;

 private:
  Decode decode_;
};

}  // namespace accel
