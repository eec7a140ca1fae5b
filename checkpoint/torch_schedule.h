// Future learning rates of a torch.optim scheduler, from its state_dict.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace accel {

struct Value;

/// Learning rates in a param_group; `max` and `min` are OneCycleLR's.
struct GroupRates {
  double initial = 0;
  double max = 0;
  double min = 0;
};

struct TorchSchedule {
  /// The learning rate of a group after `step` calls of step().
  using Curve = std::function<double(const GroupRates& group, double step)>;

  std::string type;              ///< "CosineAnnealingLR"
  int64_t steps = 0;             ///< calls of step(); ReduceLROnPlateau: evaluations
  std::vector<double> base_lrs;  ///< per group; empty for ReduceLROnPlateau
  std::vector<double> last_lrs;  ///< per group
  Curve curve;                   ///< empty: not in the state, such as LambdaLR's
  bool cycles_momentum = false;
  bool unsupported = false;  ///< a class without an equivalent schedule here
};

/// Recognizes the class by its fields. An unknown class has the type "an unknown scheduler" and no
/// curve. Throws FormatError for invalid fields.
TorchSchedule read_torch_schedule(const Value& value);

/// The learning rates of all schedules with the curve of the first one.
TorchSchedule join_schedules(const std::vector<TorchSchedule>& schedules);

}  // namespace accel
