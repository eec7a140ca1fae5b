// The learning rates that a scheduler of PyTorch's goes on to give, from its state_dict.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace accel {

struct Value;

/// Rates that param_groups keep of one group. `max` and `min` are OneCycleLR's.
struct GroupRates {
  double initial = 0;
  double max = 0;
  double min = 0;
};

struct TorchSchedule {
  /// The rate of a group after `step` calls of step().
  using Curve = std::function<double(const GroupRates& group, double step)>;

  std::string type;              ///< "CosineAnnealingLR"
  int64_t steps = 0;             ///< how often it was stepped; ReduceLROnPlateau: evaluations
  std::vector<double> base_lrs;  ///< per group; none of ReduceLROnPlateau
  std::vector<double> last_lrs;  ///< per group
  Curve curve;                   ///< empty: the state does not tell, as that of a LambdaLR
  bool cycles_momentum = false;
  bool strange = false;  ///< of a class that no schedule of ours is
};

/// Tells the class by the numbers it keeps. One that is not known has the type "a scheduler that
/// is not known" and no curve. Throws FormatError for numbers that the class cannot have.
TorchSchedule read_torch_schedule(const Value& value);

}  // namespace accel
