// One step under way: what a task is given, and what is known of the step when it has returned.
#pragma once

#include <c10/util/SmallVector.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/step.h"
#include "runner/dist/group_ranks.h"
#include "runner/job/job.h"
#include "runner/loop/stopwatch.h"
#include "runner/loop/train_step.h"

namespace accel {

/// What all ranks know of a window once they have told each other.
struct SharedWindow {
  RankNumbers weights;  ///< of all parts
  double total = 0;     ///< their sum
};

/// Of so many the step keeps account without memory from the heap.
constexpr size_t kUsualPasses = 4;
using PassLosses = c10::SmallVector<at::Tensor, kUsualPasses>;

class StepRun final : public StepContext {
 public:
  /// All is kept by reference. `shared` is as all ranks have it.
  StepRun(Job& job, const StepWork& work, const std::vector<Batch>& batches,
          const SharedWindow& shared)
      : job_(job), work_(work), batches_(batches), shared_(shared), ranks_(*job.group) {}

  int64_t step() const override { return work_.ask.step; }
  Model& model() override { return *job_.model; }
  const std::vector<Batch>& micro_batches() const override { return batches_; }
  double update(const std::string& optimizer, const BatchLoss& loss) override;
  void log(const std::string& name, double value) override { logged_[name] = value; }
  Ranks& ranks() override { return ranks_; }
  at::Tensor gather_for_metrics(const std::vector<at::Tensor>& rows) override;

  /// Over all updates, of the true gradients before clipping, as one vector.
  double grad_norm() const { return grad_norm_; }
  /// Whether no update was skipped for an overflow of fp16.
  bool updated() const { return updated_; }
  const std::map<std::string, double>& logged() const { return logged_; }

 private:
  /// The passes of one update, until `part` has the gradients of all ranks. Returns the losses'
  /// parts of the window's mean.
  PassLosses run_passes(TrainedPart& part, const BatchLoss& loss);
  void apply(TrainedPart& part);
  double window_loss(const PassLosses& losses) const;
  /// Clips as the recipe says. Returns the norm before.
  double clip(const TrainedPart& part) const;
  /// Throws what tells that memory is short, on all ranks.
  [[noreturn]] void fail_for_memory(const TrainedPart& part) const;
  void check_loss(double loss) const;
  void check_gradients(const TrainedPart& part, double norm) const;
  void check_scale() const;
  /// "; the weights are those of the step before", and which are not.
  std::string weights_now() const;

  Job& job_;
  const StepWork& work_;
  const std::vector<Batch>& batches_;
  const SharedWindow& shared_;
  GroupRanks ranks_;
  double grad_norm_ = 0;
  bool updated_ = true;
  c10::SmallVector<const TrainedPart*, kUsualPasses> done_;  ///< those that have made their update
  std::map<std::string, double> logged_;
};

}  // namespace accel
