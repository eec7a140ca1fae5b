#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "models/placement/device_map.h"
#include "models/placement/largest_layer.h"
#include "models/placement/module_sizes.h"

namespace accel {
namespace {

/// Bytes of the first module of each unsplittable class; the largest of them.
void add_unsplittable(const NamedModule& item, const ModuleSizes& sizes, const PlacedModel& model,
                      std::map<std::string, int64_t>& to) {
  const int64_t bytes = sizes.of(item.name);
  if (!item.name.empty() && bytes > 0 && is_unsplittable(*item.module, model)) {
    to.try_emplace(item.module->type, bytes);
  }
  for (const auto& [name, child] : item.module->children) {
    add_unsplittable({full_name(item.name, name), &child}, sizes, model, to);
  }
}

/// Names without parts among `names`, the model excepted.
std::vector<std::string> leaves_of(const std::vector<std::string>& names) {
  std::set<std::string> parents;
  for (const std::string& name : names) {
    const size_t dot = name.rfind('.');
    if (dot != name.npos) parents.insert(name.substr(0, dot));
  }
  std::vector<std::string> leaves;
  std::copy_if(names.begin(), names.end(), std::back_inserter(leaves),
               [&](const auto& name) { return !name.empty() && !parents.contains(name); });
  return leaves;
}

/// The mean bytes of modules that have tensors only.
int64_t mean_leaf(const ModuleSizes& sizes) {
  const std::vector<std::string> tensors = leaves_of(sizes.names());
  const std::set<std::string> dropped(tensors.begin(), tensors.end());
  std::vector<std::string> modules;
  std::copy_if(sizes.names().begin(), sizes.names().end(), std::back_inserter(modules),
               [&](const auto& name) { return !dropped.contains(name); });
  int64_t bytes = 0;
  const std::vector<std::string> leaves = leaves_of(modules);
  for (const std::string& name : leaves) bytes += sizes.of(name);
  return static_cast<int64_t>(static_cast<double>(bytes) /
                              static_cast<double>(std::max<size_t>(leaves.size(), 1)));
}

/// What a GPU gets above its share: shares end between modules.
int64_t slack_of(const PlacedModel& model, const ModuleSizes& sizes) {
  std::map<std::string, int64_t> unsplittable;
  add_unsplittable({"", &model.root}, sizes, model, unsplittable);
  int64_t bytes = mean_leaf(sizes);
  for (const auto& [type, size] : unsplittable) bytes = std::max(bytes, size);
  return static_cast<int64_t>(1.25 * static_cast<double>(bytes));
}

}  // namespace

MaxMemory balanced_memory(const PlacedModel& model, MaxMemory limits, bool low_zero) {
  limits = in_device_order(std::move(limits));
  std::vector<DeviceLimit*> gpus;
  for (DeviceLimit& limit : limits) {
    if (limit.is_gpu() && limit.bytes > 0) gpus.push_back(&limit);
  }
  if (gpus.empty()) return limits;
  const auto count = static_cast<int64_t>(gpus.size());
  low_zero = low_zero && count > 1;
  if (low_zero &&
      (gpus.front()->device != "0" || gpus.back()->device != std::to_string(count - 1))) {
    throw std::invalid_argument("balanced_low_0 needs GPUs that are numbered from 0");
  }
  const ModuleSizes sizes(model.root);
  const int64_t share = sizes.total() / (low_zero ? count - 1 : count) + slack_of(model, sizes);
  int64_t others = 0;
  for (DeviceLimit* gpu : gpus) {
    const bool keeps = gpu == gpus.back() || (low_zero && gpu == gpus.front());
    if (!keeps) gpu->bytes = std::min(gpu->bytes, share);
    if (gpu != gpus.front()) others += gpu->bytes;
  }
  if (low_zero) {
    gpus.front()->bytes =
        std::min(gpus.front()->bytes, std::max<int64_t>(0, sizes.total() - others));
  }
  return limits;
}

}  // namespace accel
