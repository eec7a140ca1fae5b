// Components by kind and name, and how one file enters itself.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "core/schema.h"

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

/// The name of a component kind and what its constructors are told besides their options.
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

/// A component whose options were read and found good; make() builds it.
template <class Base>
struct Ref {
  std::string type;  ///< empty: not given
  Node resolved;     ///< type and every option, with the places they came from
  std::function<std::unique_ptr<Base>(const typename Kind<Base>::Context&)> make;

  explicit operator bool() const { return static_cast<bool>(make); }
};

/// What can be said of a component without building it.
struct ComponentInfo {
  std::string name;
  std::string summary;
  std::vector<FieldInfo> fields;
};

/// The part of a catalogue that needs no type.
class CatalogIndex {
 public:
  explicit CatalogIndex(std::string kind) : kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }
  const std::map<std::string, ComponentInfo>& items() const { return items_; }
  std::vector<std::string> names() const;

 protected:
  /// The component's name from `type` or a bare scalar; reports and returns null when it is
  /// missing or unknown.
  const ComponentInfo* choose(const Node& node, Reading& reading) const;
  /// Throws std::logic_error for a second component of one name.
  void enter(ComponentInfo info);

 private:
  std::string kind_;
  std::map<std::string, ComponentInfo> items_;
};

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
    const ComponentInfo* info = choose(node, reading);
    return info ? prepare_.at(info->name)(node, reading) : Ref<Base>{};
  }

 private:
  std::map<std::string, Prepare> prepare_;
};

/// All catalogues. A value: tests make their own.
struct Registry {
  std::tuple<Catalog<Model>, Catalog<Task>, Catalog<Dataset>, Catalog<Transform>,
             Catalog<Optimizer>, Catalog<Schedule>, Catalog<Metric>, Catalog<Callback>,
             Catalog<Tracker>>
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

/// A link in this binary's chain of components. The chain is constant-initialised and touched by
/// nothing but these constructors, so a plugin can be opened and its ABI checked before any of its
/// code sees the host's objects.
class Registration {
 public:
  using Enter = void (*)(Registry&);
  explicit Registration(Enter enter) : enter_(enter), next_(chain_) { chain_ = this; }
  /// Enters every component of this binary.
  static void enter_all(Registry& registry) {
    for (const Registration* r = chain_; r; r = r->next_) r->enter_(registry);
  }

 private:
  Enter enter_;
  const Registration* next_;
  static constinit inline const Registration* chain_ __attribute__((visibility("hidden"))) =
      nullptr;
};

}  // namespace accel

#include "core/register.h"
