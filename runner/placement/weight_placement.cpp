#include "runner/placement/weight_placement.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/module_state.h"
#include "models/placement/model_tree.h"
#include "models/placement/module_sizes.h"
#include "models/placement/offload_folder.h"
#include "models/placement/streamed_unit.h"
#include "runner/placement/mapped_weights.h"
#include "runner/plan/number_text.h"

namespace accel {
namespace {

constexpr int64_t kRateBytes = int64_t{256} << 20;

MaxMemory with_limit(MaxMemory limits, const char* device, int64_t bytes) {
  for (DeviceLimit& limit : limits) {
    if (limit.device == device) limit.bytes = bytes;
  }
  return limits;
}

/// A placed model and the bytes of its parameters on each device.
struct Placed {
  DeviceMap map;
  std::map<std::string, int64_t> bytes;
  std::string computing = kCpuDevice;  ///< the device that computes

  bool is_all_there() const { return bytes.size() == 1 && bytes.contains(computing); }

  int64_t on(const char* device) const {
    const auto found = bytes.find(device);
    return found == bytes.end() ? 0 : found->second;
  }
};

/// Whether a module or tensor has this full name.
bool has_name(const ModuleTree& tree, std::string_view name) {
  const auto is_named = [&](const ModuleTree::Tensor& item) { return item.name == name; };
  if (std::any_of(tree.parameters.begin(), tree.parameters.end(), is_named)) return true;
  if (std::any_of(tree.buffers.begin(), tree.buffers.end(), is_named)) return true;
  return std::any_of(tree.children.begin(), tree.children.end(), [&](const auto& child) {
    if (!name.starts_with(child.name)) return false;
    const std::string_view rest = name.substr(child.name.size());
    return rest.empty() || (rest.starts_with('.') && has_name(child.module, rest.substr(1)));
  });
}

void check_names(const std::map<std::string, std::string>& devices, const ModuleTree& tree) {
  for (const auto& [name, device] : devices) {
    if (name.empty() || has_name(tree, name)) continue;
    throw Error(ExitCode::kRecipe, text("the device map has '{}', which the model has not", name),
                "name modules and tensors as in the model's folder");
  }
}

Placed placed_by(DeviceMap map, const ModuleSizes& sizes, const std::vector<Parameter>& weights) {
  Placed out;
  out.map = std::move(map);
  for (const Parameter& item : weights) {
    const std::string device = out.map.device_of(item.name);
    if (device.empty()) {
      throw Error(ExitCode::kRecipe, text("the device map has no device for '{}'", item.name),
                  "name it, or a module around it; \"\" is the whole model");
    }
    out.bytes[device] += sizes.of(item.name);
  }
  return out;
}

/// With room for a block that is read ahead where a block is on the disk, and on the GPU for one
/// that is copied ahead where a block is not there.
Placed inferred(const PlacedModel& model, const PlacementRequest& request,
                const std::vector<Parameter>& weights, int64_t largest) {
  const ModuleSizes sizes(model.root);
  const auto infer = [&](const MaxMemory& given) {
    const bool is_even = request.kind != "sequential";
    const MaxMemory limits =
        is_even ? balanced_memory(model, given, request.kind == "balanced_low_0") : given;
    return placed_by(infer_device_map(model, limits), sizes, weights);
  };
  const Placed first = infer(request.limits);
  MaxMemory limits = request.limits;
  const auto leave_block = [&](const char* device) {
    const int64_t limit = request.limit_of(device);
    if (limit >= 2 * largest) limits = with_limit(std::move(limits), device, limit - largest);
  };
  if (first.bytes.contains(kDiskDevice)) leave_block(kCpuDevice);
  if (request.limit_of(kGpuDevice) >= 0 && first.bytes.size() > 1) leave_block(kGpuDevice);
  return limits == request.limits ? first : infer(limits);
}

/// "model.layers.3" and "model.layers.4" on one device are one line.
bool continues(const std::string& before, const std::string& name) {
  const size_t a = before.rfind('.'), b = name.rfind('.');
  if (a == before.npos || b == name.npos || before.substr(0, a) != name.substr(0, b)) return false;
  const std::string left = before.substr(a + 1), right = name.substr(b + 1);
  return is_number(left) && is_number(right) && std::stoll(left) + 1 == std::stoll(right);
}

void print_table(const Placed& placed, const ModuleSizes& sizes, const std::string& kind,
                 std::ostream& to) {
  struct Row {
    std::string first, last, device;
    int64_t bytes;
  };
  std::vector<Row> rows;
  for (const std::string& name : sizes.names()) {
    const auto found = placed.map.devices.find(name);
    if (found == placed.map.devices.end()) continue;
    const int64_t bytes = sizes.of(name);
    if (!rows.empty() && rows.back().device == found->second && continues(rows.back().last, name)) {
      rows.back().last = name;
      rows.back().bytes += bytes;
    } else {
      rows.push_back({name, name, found->second, bytes});
    }
  }
  to << text("device map ({}):\n", kind);
  for (const Row& row : rows) {
    const std::string end = row.last == row.first ? "" : " to " + row.last;
    const std::string name = row.first.empty() ? "the model" : row.first + end;
    to << text("  {}  {}  {}\n", row.device, name, bytes_text(row.bytes));
  }
}

/// The weights outside of the device that computes of a block, or with null of the head.
struct OffloadedUnit {
  Block* block = nullptr;
  std::vector<Parameter> weights;
};

int64_t bytes_of(const std::vector<Parameter>& weights) {
  return std::accumulate(weights.begin(), weights.end(), int64_t{0},
                         [](int64_t sum, const Parameter& item) {
                           return sum + static_cast<int64_t>(item.local.nbytes());
                         });
}

std::vector<Parameter> on_disk(const std::vector<Parameter>& weights, const DeviceMap& map) {
  std::vector<Parameter> out;
  std::copy_if(weights.begin(), weights.end(), std::back_inserter(out),
               [&](const Parameter& item) { return map.device_of(item.name) == kDiskDevice; });
  return out;
}

/// The weights outside of the device that computes: those of blocks, then those of the head, and
/// others.
struct OffloadedWeights {
  std::vector<OffloadedUnit> units;
  std::vector<Parameter> rest;

  std::vector<Parameter> on_disk(const DeviceMap& map) const {
    std::vector<Parameter> out;
    for (const OffloadedUnit& unit : units) {
      for (Parameter& item : accel::on_disk(unit.weights, map)) out.push_back(std::move(item));
    }
    for (Parameter& item : accel::on_disk(rest, map)) out.push_back(std::move(item));
    return out;
  }
  /// Of what `part` counts of a unit's weights.
  template <class Part>
  int64_t largest(const Part& part) const {
    int64_t bytes = 0;
    for (const OffloadedUnit& unit : units) bytes = std::max(bytes, part(unit.weights));
    return bytes;
  }
};

OffloadedWeights offloaded_weights(Model& model, const Placed& placed,
                                   const std::vector<Parameter>& weights) {
  const auto is_offloaded = [&](const Parameter& item) {
    return placed.map.device_of(item.name) != placed.computing;
  };
  const auto offloaded = [&](const std::vector<Parameter>& from) {
    std::vector<Parameter> out;
    std::copy_if(from.begin(), from.end(), std::back_inserter(out), is_offloaded);
    return out;
  };
  OffloadedWeights out;
  std::set<std::string> in_blocks;
  for (const BlockParameters& block : blocks_of(model)) {
    for (const Parameter& item : block.parameters) in_blocks.insert(item.name);
    std::vector<Parameter> own = offloaded(block.parameters);
    if (!own.empty()) out.units.push_back({block.block, std::move(own)});
  }
  auto* chain = dynamic_cast<BlockChain*>(&model);
  std::vector<Parameter> head;
  const at::Tensor tied = chain ? chain->tied_weight() : at::Tensor();
  bool after_blocks = false;
  for (const Parameter& item : weights) {
    const bool in_block = in_blocks.contains(item.name);
    after_blocks = after_blocks || in_block;
    if (in_block || !is_offloaded(item)) continue;
    const bool is_head = after_blocks || (tied.defined() && item.local.is_same(tied));
    (is_head && !out.units.empty() ? head : out.rest).push_back(item);
  }
  if (!head.empty()) out.units.push_back({nullptr, std::move(head)});
  return out;
}

const char* place_text(const std::string& device) {
  return device == kCpuDevice ? "the CPU" : device == kGpuDevice ? "the GPU" : "the disk";
}

/// Throws for more bytes on a device than its limit.
void check_limits(const Placed& placed, const PlacementRequest& request) {
  for (const char* device : {kGpuDevice, kCpuDevice, kDiskDevice}) {
    const int64_t limit = request.limit_of(device);
    // A map that is inferred may leave the CPU no room for the rest, which room_for() reports.
    const bool is_counted = device == kDiskDevice || !request.devices.empty();
    if (!is_counted || limit < 0 || placed.on(device) <= limit) continue;
    throw Error(ExitCode::kRecipe,
                text("{} of weights are on {}, and '--max-memory' allows {}",
                     bytes_text(placed.on(device)), place_text(device), bytes_text(limit)),
                "raise a limit");
  }
}

void require_streamed(const OffloadedWeights& offloaded, const Placed& placed) {
  if (placed.computing != kCpuDevice && !offloaded.rest.empty()) {
    throw Error(ExitCode::kRecipe,
                text("'{}' is not on the GPU, and belongs to no block that is copied there",
                     offloaded.rest.front().name),
                "place it on 0, or raise '0' in '--max-memory'");
  }
  if (!offloaded.units.empty()) return;
  throw Error(ExitCode::kRecipe,
              text("all blocks of the model are on {}, and other weights cannot be streamed",
                   place_text(placed.computing)),
              text("raise '{}' in '--max-memory'", placed.computing));
}

/// The bytes that `device` has for streamed weights. Throws if a unit has more, `largest`.
int64_t room_for(int64_t largest, const char* device, const Placed& placed,
                 const PlacementRequest& request) {
  const int64_t room = request.limit_of(device) - placed.on(device);
  if (room >= largest) return room;
  throw Error(ExitCode::kRecipe,
              text("'{}' of '--max-memory' leaves {} for streamed weights, and a block or the "
                   "head has {}",
                   device, bytes_text(std::max<int64_t>(room, 0)), bytes_text(largest)),
              text("allow '{}={}KiB'", device, (placed.on(device) + largest + 1023) / 1024));
}

int64_t room_for_disk(const OffloadedWeights& offloaded, const Placed& placed,
                      const PlacementRequest& request) {
  const auto part = [&](const std::vector<Parameter>& weights) {
    const std::vector<Parameter> read = on_disk(weights, placed.map);
    return bytes_of(read) + table_bytes_between(read);
  };
  return room_for(offloaded.largest(part), kCpuDevice, placed, request);
}

int64_t room_on_gpu(const OffloadedWeights& offloaded, const Placed& placed,
                    const PlacementRequest& request) {
  const auto all = [](const std::vector<Parameter>& weights) { return bytes_of(weights); };
  return room_for(offloaded.largest(all), kGpuDevice, placed, request);
}

/// The name of a tied head in transformers' modules.
OffloadFolder::Alias tied_head(Model& model, const std::vector<Parameter>& weights) {
  auto* chain = dynamic_cast<BlockChain*>(&model);
  const at::Tensor tied = chain ? chain->tied_weight() : at::Tensor();
  for (const Parameter& item : weights) {
    if (tied.defined() && item.local.is_same(tied)) return {"lm_head.weight", item.name};
  }
  return {};
}

/// Deferred weights that stay in memory.
void load_others(const std::vector<Parameter>& weights, const DeviceMap& map) {
  for (const Parameter& item : weights) {
    if (map.device_of(item.name) != kDiskDevice) materialize(item.local);
  }
}

int64_t largest_unit(const PlacedModel& model, Model& of) {
  const ModuleSizes sizes(model.root);
  int64_t largest = 0;
  for (const BlockParameters& block : blocks_of(of)) {
    int64_t bytes = 0;
    for (const Parameter& item : block.parameters) bytes += sizes.of(item.name);
    largest = std::max(largest, bytes);
  }
  return largest;
}

/// Leaves vectors in memory that no file has as the model needs them.
void keep_vectors(const std::vector<Parameter>& weights, Placed& placed, std::ostream& to) {
  int64_t kept = 0;
  for (const Parameter& item : unmapped_vectors(on_disk(weights, placed.map))) {
    placed.map.devices[item.name] = kCpuDevice;
    kept += static_cast<int64_t>(item.local.nbytes());
  }
  if (kept == 0) return;
  placed.bytes[kCpuDevice] += kept;
  if ((placed.bytes[kDiskDevice] -= kept) == 0) placed.bytes.erase(kDiskDevice);
  to << text("kept in memory: {} of vectors that the files have in another type or form\n",
             bytes_text(kept));
}

/// Prints the table to `to`.
Placed placed_model_of(Model& model, const std::vector<Parameter>& weights,
                       const PlacementRequest& request, std::ostream& to) {
  const PlacedModel tree = placed_model(model);
  const ModuleSizes sizes(tree.root);
  check_names(request.devices, tree.root);
  DeviceMap given;
  given.devices = request.devices;
  Placed placed = request.devices.empty()
                      ? inferred(tree, request, weights, largest_unit(tree, model))
                      : placed_by(given, sizes, weights);
  if (request.names_gpu()) placed.computing = kGpuDevice;
  print_table(placed, sizes, request.kind, to);
  if (request.offload.empty()) keep_vectors(weights, placed, to);
  check_limits(placed, request);
  return placed;
}

}  // namespace

void print_placement(Model& model, const PlacementRequest& request, std::ostream& to,
                     const std::function<double()>& disk_rate) {
  const std::vector<Parameter> weights = parameters_of(model);
  const Placed placed = placed_model_of(model, weights, request, to);
  if (placed.is_all_there()) {
    to << "all weights are on " << place_text(placed.computing) << ": nothing is streamed\n";
    return;
  }
  const OffloadedWeights offloaded = offloaded_weights(model, placed, weights);
  require_streamed(offloaded, placed);
  const bool on_gpu = placed.computing == kGpuDevice;
  if (on_gpu) {
    int64_t bytes = 0;
    for (const OffloadedUnit& unit : offloaded.units) bytes += bytes_of(unit.weights);
    to << "copied to the GPU: " << bytes_text(bytes) << " per token, at most "
       << bytes_text(room_on_gpu(offloaded, placed, request)) << " of them there\n";
  }
  int64_t bytes = 0;
  for (const OffloadedUnit& unit : offloaded.units) {
    bytes += bytes_of(on_disk(unit.weights, placed.map));
  }
  if (on_gpu && bytes == 0) return;
  to << "streamed: " << bytes_text(bytes) << " per token, at most "
     << bytes_text(room_for_disk(offloaded, placed, request)) << " of them in memory\n";
  const double rate = disk_rate();
  if (rate == 0) {
    to << "predicted: no seconds per token, the recipe has no 'weights' to measure the disk with\n";
    return;
  }
  to << "predicted: at least " << static_cast<double>(bytes) / rate
     << " s per token, at the disk's " << std::llround(rate / (1 << 20)) << " MiB/s\n";
}

double disk_rate_of(std::vector<std::span<const std::byte>> mapped) {
  return sequential_rate(mapped_ranges(std::move(mapped)), kRateBytes);
}

namespace {

/// Moves the weights that the map has on the GPU, and all buffers.
void move_resident(Model& model, const std::vector<Parameter>& weights, const DeviceMap& map,
                   at::Device device) {
  const c10::NoGradGuard no_grad;
  for (const Parameter& item : weights) {
    if (map.device_of(item.name) == kGpuDevice) item.local.set_data(item.local.to(device));
  }
  move_buffers_to(model, device);
}

WeightStreams streams_of(const OffloadedWeights& offloaded, const Placed& placed,
                         const PlacementRequest& request, at::Device device) {
  WeightStreams out;
  std::vector<StreamedUnit> disk_units;
  std::vector<DeviceUnit> units;
  std::vector<MappedRange> all;
  for (const OffloadedUnit& unit : offloaded.units) {
    DeviceUnit copied = {unit.block, {}};
    StreamedUnit read = {unit.block, file_ranges(on_disk(unit.weights, placed.map)), {}};
    for (const Parameter& item : unit.weights) {
      // A tensor of its own where the parameter will be on the GPU.
      const at::Tensor values = device.is_cpu() ? item.local : item.local.detach();
      copied.weights.push_back({item.local, values});
      if (placed.map.device_of(item.name) == kDiskDevice) read.weights.push_back(values);
    }
    if (!read.weights.empty()) {
      copied.on_disk = disk_units.size();
      out.disk_bytes += read.bytes();
      all.insert(all.end(), read.ranges.begin(), read.ranges.end());
      disk_units.push_back(std::move(read));
    }
    units.push_back(std::move(copied));
  }
  if (!disk_units.empty()) {
    out.disk_rate = sequential_rate(all, kRateBytes);
    out.disk = std::make_unique<WeightStream>(
        std::move(disk_units), file_ranges(on_disk(offloaded.rest, placed.map)),
        room_for_disk(offloaded, placed, request),
        device.is_cpu() ? WeightStream::User::kBlocks : WeightStream::User::kCaller);
  }
  if (device.is_cpu()) return out;
  out.device = std::make_unique<DeviceStream>(
      std::move(units), device, room_on_gpu(offloaded, placed, request), out.disk.get());
  return out;
}

}  // namespace

std::unique_ptr<PlacedWeights> PlacedWeights::place(Model& model, const PlacementRequest& request,
                                                    at::Device device) {
  if (request.kind.empty()) {
    if (!device.is_cpu()) move_to(model, device);
    return nullptr;
  }
  const std::vector<Parameter> weights = parameters_of(model);
  const Placed placed = placed_model_of(model, weights, request, std::cerr);
  if (!request.offload.empty() && placed.on(kDiskDevice) == 0) {
    throw Error(ExitCode::kRecipe, "'--offload' has nothing to do: no weights are on the disk",
                "leave it out, or lower limits in '--max-memory'");
  }
  if (placed.is_all_there()) {
    if (!device.is_cpu()) move_to(model, device);
    return nullptr;
  }
  const OffloadedWeights offloaded = offloaded_weights(model, placed, weights);
  require_streamed(offloaded, placed);
  if (!request.offload.empty()) {
    OffloadFolder(request.offload).adopt(offloaded.on_disk(placed.map), tied_head(model, weights));
    load_others(weights, placed.map);
  }
  WeightStreams streams = streams_of(offloaded, placed, request, device);
  if (!device.is_cpu()) move_resident(model, weights, placed.map, device);
  return std::unique_ptr<PlacedWeights>(new PlacedWeights(std::move(streams)));
}

void PlacedWeights::report() const {
  constexpr double kMib = 1 << 20;
  if (streams_.device) {
    std::cerr << "copied " << bytes_text(streams_.device->pass_bytes()) << " to the GPU a pass, "
              << bytes_text(streams_.device->capacity()) << " of them there at once\n";
  }
  if (!streams_.disk) return;
  const StreamFigures figures = streams_.disk->figures();
  const int64_t count = streams_.device ? streams_.device->passes() : figures.passes;
  if (count == 0) return;
  const auto passes = static_cast<double>(count);
  const auto bytes = static_cast<double>(figures.bytes);
  std::cerr << "streamed " << bytes_text(streams_.disk_bytes) << " a pass: predicted "
            << static_cast<double>(streams_.disk_bytes) / streams_.disk_rate << " s, measured "
            << figures.seconds / passes << " s; " << std::llround(bytes / figures.seconds / kMib)
            << " MiB/s, " << std::llround(100 * bytes / figures.seconds / streams_.disk_rate)
            << " % of the disk's " << std::llround(streams_.disk_rate / kMib) << " MiB/s; at most "
            << bytes_text(figures.peak_bytes) << " of them in memory\n";
}

}  // namespace accel
