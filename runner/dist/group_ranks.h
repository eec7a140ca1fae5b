// A Communicator as tasks and users' own loops see it.
#pragma once

#include "core/ranks.h"
#include "runner/dist/communicator.h"

namespace accel {

class GroupRanks final : public Ranks {
 public:
  /// `group` outlives it.
  explicit GroupRanks(Communicator& group) : group_(group) {}

  int64_t rank() const override { return group_.rank(); }
  int64_t world() const override { return group_.world(); }
  at::Tensor gather(const at::Tensor& tensor) override;
  at::Tensor reduce(const at::Tensor& tensor, Reduce how) override;
  at::Tensor pad_across_processes(const at::Tensor& tensor, const RankPadding& padding) override;
  at::Tensor broadcast(const at::Tensor& tensor) override;
  bool any(bool here) override;
  void wait_for_everyone() override;

 private:
  Communicator& group_;
};

}  // namespace accel
