#include "train/recipe/mixture_weight.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

/// Where a point of a schedule is; null: reported.
std::optional<Duration> point_of(const Node::Entry& entry, const std::string& name,
                                 Reading& reading) {
  const std::optional<Duration> at = parse_duration({entry.key}).value;
  const bool known =
      at && (at->unit == Duration::Unit::kSteps || at->unit == Duration::Unit::kEpochs ||
             at->unit == Duration::Unit::kPercent);
  if (known && at->value >= 0) return at;
  reading.problems.error(
      entry.where, text("'{}' has the point '{}', which is no place in the run", name, entry.key),
      "write steps, epochs or a percentage, such as '500 steps' or '50%'");
  return std::nullopt;
}

/// Points of one unit ascend; others are compared when the length of the run is known.
bool ascends(const std::vector<MixtureWeight::Point>& points, const Duration& at) {
  return std::none_of(points.begin(), points.end(), [&](const MixtureWeight::Point& point) {
    return point.at.unit == at.unit && point.at.value >= at.value;
  });
}

std::optional<MixtureWeight> read_schedule(const Node& node, const std::string& name,
                                           Reading& reading) {
  MixtureWeight out{.points = {}, .is_schedule = true};
  const size_t before = reading.problems.size();
  for (const Node::Entry& entry : *node.map()) {
    const std::optional<Duration> at = point_of(entry, name, reading);
    const std::optional<double> weight = Codec<double>::read(entry.node, entry.key, reading);
    if (!at || !weight) continue;
    if (!ascends(out.points, *at)) {
      reading.problems.error(
          entry.where, text("the point '{}' of '{}' is not behind the one before", entry.key, name),
          "write the points in their order");
    }
    if (*weight < 0) {
      reading.problems.error(entry.node.where,
                             text("'{}' must be at least 0 at every point", name));
    }
    out.points.push_back({*at, *weight});
  }
  const bool acts = std::any_of(out.points.begin(), out.points.end(),
                                [](const MixtureWeight::Point& point) { return point.weight > 0; });
  if (reading.problems.size() == before && !acts) {
    reading.problems.error(node.where, text("'{}' is above 0 at no point", name),
                           "leave the dataset out");
  }
  if (reading.problems.size() != before) return std::nullopt;
  return out;
}

}  // namespace

bool MixtureWeight::in_percent() const {
  return std::any_of(points.begin(), points.end(),
                     [](const Point& point) { return point.at.unit == Duration::Unit::kPercent; });
}

std::string Codec<MixtureWeight>::json() {
  return "\"anyOf\": [{\"type\": \"number\", \"exclusiveMinimum\": 0}, {\"type\": \"object\", "
         "\"additionalProperties\": {\"type\": \"number\", \"minimum\": 0}}]";
}

std::optional<MixtureWeight> Codec<MixtureWeight>::read(const Node& node, const std::string& name,
                                                        Reading& reading) {
  if (node.map()) return read_schedule(node, name, reading);
  const Scalar* scalar = node.scalar();
  const std::optional<double> number = scalar ? parse_number(*scalar).value : std::nullopt;
  if (number) return MixtureWeight{.points = {{.at = {}, .weight = *number}}};
  reading.wrong_type(node, name, Codec::name());
  return std::nullopt;
}

Node Codec<MixtureWeight>::write(const MixtureWeight& value) {
  if (!value.is_schedule) return Codec<double>::write(value.constant());
  Node::Map map;
  for (const MixtureWeight::Point& point : value.points) {
    map.push_back({to_string(point.at), {}, Codec<double>::write(point.weight)});
  }
  return {std::move(map), {}};
}

}  // namespace accel
