#include "models/placement/device_map.h"

#include <algorithm>
#include <optional>
#include <set>

#include "models/placement/largest_layer.h"
#include "models/placement/module_sizes.h"

namespace accel {
namespace {

using Queue = std::vector<NamedModule>;

/// Whether the tensor is the module or lies in it. As in Accelerate the module's name may begin
/// inside the tensor's.
bool is_within(const std::string& tensor, const std::string& module) {
  return (tensor + ".").find(module + ".") != tensor.npos;
}

/// The modules of a queue that hold parameters tied to those of another module.
struct Ties {
  int64_t bytes = 0;  ///< of the module with them
  std::vector<std::string> modules;
};

/// Accelerate's loop over the queue of modules.
class Placing {
 public:
  Placing(const PlacedModel& model, const MaxMemory& limits, const PlacementOptions& options)
      : model_(model),
        limits_(in_device_order(limits)),
        options_(options),
        sizes_(model.root),
        queue_(parts_of({"", &model.root})) {
    for (const auto& buffer : model.root.buffers) queue_.push_back({buffer.name, nullptr});
    std::erase_if(limits_, [](const DeviceLimit& limit) { return limit.device == kDiskDevice; });
    limits_.push_back({kDiskDevice, 0});
    largest_ = layer_of(queue_);
  }

  DeviceMap run() {
    while (!queue_.empty()) {
      const NamedModule module = queue_.front();
      queue_.erase(queue_.begin());
      largest_.remove(module.name);
      if (largest_.names.empty()) largest_ = largest_module();
      if (!place(module)) make_room(module);
    }
    report_buffers();
    if (options_.clean_result) merge_siblings("");
    return std::move(out_);
  }

 private:
  const std::string& device() const { return limits_[current_].device; }
  bool is_disk() const { return device() == kDiskDevice; }
  /// Whether streamed layers come to the current device.
  bool is_main() const {
    return device() == kCpuDevice || (current_ == 0 && limits_[current_].is_gpu());
  }
  int64_t reserved() const { return is_main() ? largest_.bytes : 0; }
  int64_t used() { return out_.used[device()]; }
  int64_t free_bytes() { return limits_[current_].bytes - reserved() - used(); }
  bool may_split(const NamedModule& module) const {
    return module.has_children() && !is_unsplittable(*module.module, model_);
  }
  LargestLayer layer_of(const Queue& queue) const { return largest_layer(queue, sizes_, model_); }
  LargestLayer largest_module() const {
    Queue modules;
    std::copy_if(queue_.begin(), queue_.end(), std::back_inserter(modules),
                 [](const NamedModule& item) { return item.module != nullptr; });
    return layer_of(modules);
  }

  /// Parameters outside of the module that are tied to some in it.
  std::vector<std::string> tied_to(const std::string& module) const {
    std::vector<std::string> outside;
    for (const auto& group : model_.tied) {
      std::vector<std::string> others;
      std::copy_if(group.begin(), group.end(), std::back_inserter(others),
                   [&](const std::string& name) { return !is_within(name, module); });
      if (others.size() == group.size()) continue;
      outside.insert(outside.end(), others.begin(), others.end());
    }
    return outside;
  }

  Ties ties_of(const NamedModule& module, const Queue& queue) const {
    Ties ties{sizes_.of(module.name), {}};
    for (const std::string& tied : tied_to(module.name)) {
      const auto holder = std::find_if(queue.begin(), queue.end(), [&](const NamedModule& item) {
        return tied.starts_with(item.name + ".");
      });
      if (holder == queue.end()) continue;  // it has a device
      ties.bytes += sizes_.of(holder->name) - sizes_.of(tied);
      ties.modules.push_back(holder->name);
    }
    return ties;
  }

  /// Whether the module and those tied to it fit on the current device, which then has them.
  bool place(const NamedModule& module) {
    const Ties ties = ties_of(module, queue_);
    if (!is_disk() && ties.bytes > free_bytes()) return false;
    out_.used[device()] += ties.bytes;
    out_.devices[module.name] = device();
    for (const std::string& tied : ties.modules) {
      std::erase_if(queue_, [&](const NamedModule& item) { return item.name == tied; });
      out_.devices[tied] = device();
    }
    if (module.module) buffers_[device()] += buffer_bytes(*module.module);
    return true;
  }

  /// After place() has failed: splits a module, searches a smaller one, or takes the next device.
  void make_room(const NamedModule& module) {
    const Ties ties = ties_of(module, queue_);
    const int64_t bytes = sizes_.of(module.name);
    if (bytes <= free_bytes() && split_tied(module, ties)) return;
    if (bytes >= free_bytes() && may_split(module)) {
      const Queue parts = parts_of(module);
      queue_.insert(queue_.begin(), parts.begin(), parts.end());
      largest_ = largest_module();
      return;
    }
    queue_.insert(queue_.begin(), module);
    const int64_t room = limits_[current_].bytes - std::max(largest_.bytes, ties.bytes);
    if (used() == 0 && options_.fallback_allocation && bring_forward(room)) return;
    if (used() == 0) out_.needed[device()] = ties.bytes + reserved();
    out_.used[device()] += reserved();
    ++current_;
  }

  /// Splits the first module of `ties` that may be, with `module` before the queue.
  bool split_tied(const NamedModule& module, const Ties& ties) {
    for (const std::string& name : ties.modules) {
      const auto at = std::find_if(queue_.begin(), queue_.end(),
                                   [&](const NamedModule& item) { return item.name == name; });
      if (!may_split(*at)) continue;
      replace_by_parts(queue_, static_cast<size_t>(at - queue_.begin()));
      queue_.insert(queue_.begin(), module);
      largest_ = largest_module();
      return true;
    }
    return false;
  }

  static void replace_by_parts(Queue& queue, size_t at) {
    const Queue parts = parts_of(queue[at]);
    queue.erase(queue.begin() + static_cast<ptrdiff_t>(at));
    queue.insert(queue.begin() + static_cast<ptrdiff_t>(at), parts.begin(), parts.end());
  }

  /// Moves a module of at most `room` bytes, perhaps a part of a queued one, before the front.
  bool bring_forward(int64_t room) {
    if (room < 0) return false;
    const std::optional<std::string> name = smaller_module(room);
    if (!name) return false;
    for (size_t dot = name->find('.'); dot != name->npos; dot = name->find('.', dot + 1)) {
      const std::string parent = name->substr(0, dot);
      const auto at = std::find_if(queue_.begin() + 1, queue_.end(),
                                   [&](const NamedModule& item) { return item.name == parent; });
      if (at != queue_.end()) replace_by_parts(queue_, static_cast<size_t>(at - queue_.begin()));
    }
    const auto at = std::find_if(queue_.begin() + 1, queue_.end(),
                                 [&](const NamedModule& item) { return item.name == *name; });
    std::rotate(queue_.begin(), at, at + 1);
    return true;
  }

  /// The first module behind the front of the queue with room for it and those tied to it.
  std::optional<std::string> smaller_module(int64_t room) const {
    Queue left(queue_.begin() + 1, queue_.end());
    while (!left.empty()) {
      const NamedModule item = left.front();
      left.erase(left.begin());
      if (ties_of(item, left).bytes <= room) return item.name;
      if (!may_split(item)) continue;
      const Queue parts = parts_of(item);
      left.insert(left.begin(), parts.begin(), parts.end());
    }
    return std::nullopt;
  }

  void report_buffers() {
    std::erase_if(out_.used, [](const auto& item) { return item.second == 0; });
    if (options_.offload_buffers || !limits_.front().is_gpu()) return;
    const int64_t buffers = buffers_[kCpuDevice] + buffers_[kDiskDevice];
    const bool fits = std::any_of(limits_.begin(), limits_.end(), [&](const DeviceLimit& limit) {
      const auto used = out_.used.find(limit.device);
      const int64_t bytes = used == out_.used.end() ? 0 : used->second;
      return limit.is_gpu() && limit.bytes >= buffers + bytes;
    });
    if (!fits) out_.misplaced_buffers = buffers;
  }

  void merge_siblings(const std::string& module) {
    auto& map = out_.devices;
    const std::string prefix = module.empty() ? "" : module + ".";
    std::vector<std::string> names;
    std::set<std::string> devices;
    for (const auto& [name, on] : map) {
      if (!name.starts_with(prefix)) continue;
      names.push_back(name);
      devices.insert(on);
    }
    if (devices.size() == 1 && names.size() > 1) {
      for (const std::string& name : names) map.erase(name);
      map[module] = *devices.begin();
      return;
    }
    std::set<std::string> children;
    for (const std::string& name : names) {
      if (name.size() <= module.size()) continue;
      children.insert(name.substr(0, name.find('.', prefix.size())));
    }
    for (const std::string& child : children) merge_siblings(child);
  }

  const PlacedModel& model_;
  MaxMemory limits_;
  PlacementOptions options_;
  ModuleSizes sizes_;
  Queue queue_;
  LargestLayer largest_;
  size_t current_ = 0;
  std::map<std::string, int64_t> buffers_;
  DeviceMap out_;
};

}  // namespace

MaxMemory in_device_order(MaxMemory limits) {
  const auto rank = [](const DeviceLimit& limit) {
    if (limit.device == kDiskDevice) return std::pair(2, int64_t{0});
    if (limit.device == kCpuDevice) return std::pair(1, int64_t{0});
    return std::pair(0, int64_t{std::stoll(limit.device)});
  };
  std::stable_sort(limits.begin(), limits.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return limits;
}

std::string DeviceMap::device_of(const std::string& name) const {
  for (std::string left = name;;) {
    const auto found = devices.find(left);
    if (found != devices.end()) return found->second;
    if (left.empty()) return {};
    const size_t dot = left.rfind('.');
    left = dot == left.npos ? "" : left.substr(0, dot);
  }
}

DeviceMap infer_device_map(const PlacedModel& model, const MaxMemory& limits,
                           const PlacementOptions& options) {
  return Placing(model, limits, options).run();
}

}  // namespace accel
