// Catalogues of components by kind and name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "core/recipe/catalog_index.h"

namespace accel {

class Model;
struct ModelContext;
class Task;
struct TaskContext;
class Dataset;
struct DatasetContext;
class Transform;
struct TransformContext;
class Optimizer;
struct OptimizerContext;
class Schedule;
struct ScheduleContext;
class Metric;
struct MetricContext;
class Callback;
struct CallbackContext;
class Tracker;
struct TrackerContext;
class RewardFunction;
struct RewardContext;

/// Name of a component kind and the type of its constructors' context.
template <class Base>
struct Kind;
template <>
struct Kind<Model> {
  static constexpr auto kName = "model";
  using Context = ModelContext;
};
template <>
struct Kind<Task> {
  static constexpr auto kName = "task";
  using Context = TaskContext;
};
template <>
struct Kind<Dataset> {
  static constexpr auto kName = "dataset";
  using Context = DatasetContext;
};
template <>
struct Kind<Transform> {
  static constexpr auto kName = "transform";
  using Context = TransformContext;
};
template <>
struct Kind<Optimizer> {
  static constexpr auto kName = "optimizer";
  using Context = OptimizerContext;
};
template <>
struct Kind<Schedule> {
  static constexpr auto kName = "scheduler";
  using Context = ScheduleContext;
};
template <>
struct Kind<Metric> {
  static constexpr auto kName = "metric";
  using Context = MetricContext;
};
template <>
struct Kind<Callback> {
  static constexpr auto kName = "callback";
  using Context = CallbackContext;
};
template <>
struct Kind<Tracker> {
  static constexpr auto kName = "tracker";
  using Context = TrackerContext;
};
template <>
struct Kind<RewardFunction> {
  static constexpr auto kName = "reward";
  using Context = RewardContext;
};

/// A component with validated options; make() builds it.
template <class Base>
struct Ref {
  std::string type;  ///< empty: not given
  Node resolved;     ///< type and all options, with their positions
  std::function<std::unique_ptr<Base>(const typename Kind<Base>::Context&)> make;

  explicit operator bool() const { return static_cast<bool>(make); }
};

namespace detail {
/// The component with deprecated names replaced, each with a warning.
Node with_current_names(const Node& component, const std::string& kind, Reading& reading);
}  // namespace detail

/// All components of one kind.
template <class Base>
class Catalog : public CatalogIndex {
 public:
  using Prepare = std::function<Ref<Base>(const Node&, Reading&)>;

  Catalog() : CatalogIndex(Kind<Base>::kName) {}
  void add(ComponentInfo info, Prepare prepare) {
    prepare_[info.name] = std::move(prepare);
    enter(std::move(info));
  }

  /// Reads the options of the component that `node` names. Reports to `reading` and returns an
  /// empty Ref when the recipe is wrong.
  Ref<Base> prepare(const Node& node, Reading& reading) const {
    const Node given = detail::with_current_names(node, kind(), reading);
    const ComponentInfo* info = choose(given, reading);
    return info ? prepare_.at(info->name)(given, reading) : Ref<Base>{};
  }

 private:
  std::map<std::string, Prepare> prepare_;
};

/// All catalogues. A value: tests make their own.
struct Registry {
  std::tuple<Catalog<Model>, Catalog<Task>, Catalog<Dataset>, Catalog<Transform>,
             Catalog<Optimizer>, Catalog<Schedule>, Catalog<Metric>, Catalog<Callback>,
             Catalog<Tracker>, Catalog<RewardFunction>>
      catalogs;

  template <class Base>
  Catalog<Base>& of() {
    return std::get<Catalog<Base>>(catalogs);
  }
  template <class Base>
  const Catalog<Base>& of() const {
    return std::get<Catalog<Base>>(catalogs);
  }
  /// Every catalogue, for `list`, `explain`, the docs and the JSON Schema.
  std::vector<const CatalogIndex*> all() const;
};

}  // namespace accel
