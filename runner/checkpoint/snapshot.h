// A copy of a run's state that training cannot change any more.
#pragma once

#include <vector>

#include "runner/checkpoint/train_state.h"

namespace accel {

/// Host memory for one state, kept from one copy to the next: a fresh gigabyte costs more in page
/// faults than in copying.
class Snapshot {
 public:
  /// A deep copy on the host, tied tensors tied. It shares this object's memory: it is good until
  /// the next take(), and may outlive the object.
  TrainState take(const TrainState& state);

 private:
  at::Tensor copy(const at::Tensor& tensor);

  std::vector<at::Tensor> buffers_;  // in the order they were asked for
  size_t next_ = 0;
};

}  // namespace accel
