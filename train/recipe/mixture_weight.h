// Weight of a dataset in a mixture: a number, or numbers at points of the run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/codec.h"
#include "data/loader/mixture_schedule.h"

namespace accel {

template <>
struct EnumNames<MixtureCurve> {
  static constexpr std::pair<MixtureCurve, const char*> kValues[] = {
      {MixtureCurve::kLinear, "linear"}, {MixtureCurve::kStages, "stages"}};
};

/// `2`, or `{0: 2, 500 steps: 1, 50%: 0}` with points in steps, epochs or shares of the run.
struct MixtureWeight {
  struct Point {
    Duration at;
    double weight = 0;
  };
  std::vector<Point> points;  ///< as written
  bool is_schedule = false;   ///< else one point at step 0

  double constant() const { return points.front().weight; }
  /// Whether a point is a share of the run.
  bool in_percent() const;
};

template <>
struct Codec<MixtureWeight> {
  static std::string name() {
    return "a number, or numbers at points such as {0: 1, 500 steps: 0.5, 50%: 0}";
  }
  static std::string json();
  static std::optional<MixtureWeight> read(const Node& node, const std::string& name,
                                           Reading& reading);
  static Node write(const MixtureWeight& value);
};

}  // namespace accel
