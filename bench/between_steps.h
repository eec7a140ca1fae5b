// Something done at the ends of two steps of a job.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/api/callback.h"
#include "train/job/job.h"

namespace accel {

class BetweenSteps final : public Callback {
 public:
  BetweenSteps(int64_t first, int64_t last, std::function<void()> begin, std::function<void()> end)
      : first_(first), last_(last), begin_(std::move(begin)), end_(std::move(end)) {}

  void on_step(int64_t step) override {
    if (step == first_) begin_();
    if (step == last_) end_();
  }

 private:
  int64_t first_, last_;
  std::function<void()> begin_, end_;
};

/// Has `begin` called behind step `first` of the job and `end` behind step `last`, on the thread
/// that trains.
inline void between_steps(Job& job, int64_t first, int64_t last, std::function<void()> begin,
                          std::function<void()> end) {
  job.callbacks.push_back(
      std::make_unique<BetweenSteps>(first, last, std::move(begin), std::move(end)));
  job.recipe.callbacks.push_back({.type = "between_steps", .resolved = {}, .make = {}});
}

}  // namespace accel
