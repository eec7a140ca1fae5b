#include "runner/placement/weight_placement.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/hardware_info.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/module_state.h"
#include "models/placement/model_tree.h"
#include "models/placement/module_sizes.h"
#include "models/placement/offload_folder.h"
#include "runner/launch/memory_limits.h"
#include "runner/plan/number_text.h"

namespace accel {
namespace {

constexpr auto kAuto = "auto";
constexpr const char* kKinds[] = {kAuto, "balanced", "balanced_low_0", "sequential"};
constexpr auto kSizeHint = "give sizes such as '--max-memory cpu=4GiB,disk=20GiB'";
constexpr int64_t kRateBytes = int64_t{256} << 20;

bool is_kind(const std::string& word) {
  return std::find(std::begin(kKinds), std::end(kKinds), word) != std::end(kKinds);
}

bool is_number(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Throws for devices that inference does not use.
void check_device(const std::string& device, const char* flag) {
  if (device == kCpuDevice || device == kDiskDevice) return;
  if (!is_number(device)) {
    throw Error(ExitCode::kRecipe, text("'{}' has the device '{}'", flag, device),
                "devices are cpu, disk and the numbers of GPUs");
  }
  throw Error(ExitCode::kRecipe,
              text("'{}' has GPU {}; this machine has {} GPUs, and inference computes on the CPU",
                   flag, device, gpus_here()),
              "name cpu and disk");
}

std::map<std::string, std::string> devices_in(const std::string& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw Error(ExitCode::kRecipe,
                text("'--device-map' is '{}', which is neither a way to place nor a file", path),
                "give auto, balanced, balanced_low_0, sequential, or a JSON file of names and "
                "devices");
  }
  const auto json = nlohmann::json::parse(file, nullptr, false);
  std::map<std::string, std::string> out;
  for (auto item = json.begin(); json.is_object() && item != json.end(); ++item) {
    if (!item->is_string() && !item->is_number_unsigned()) break;
    const std::string device = item->is_string() ? item->get<std::string>() : item->dump();
    check_device(device, "--device-map");
    out[item.key()] = device;
  }
  if (json.is_object() && !json.empty() && out.size() == json.size()) return out;
  throw Error(ExitCode::kRecipe, text("'{}' is no device map", path),
              "give a JSON object of modules and devices, such as {\"model.embed_tokens\": "
              "\"cpu\", \"model.layers\": \"disk\"}");
}

int64_t limit_of(const MaxMemory& limits, const std::string& device) {
  const auto found = std::find_if(limits.begin(), limits.end(),
                                  [&](const DeviceLimit& item) { return item.device == device; });
  return found == limits.end() ? -1 : found->bytes;
}

MaxMemory with_cpu_limit(MaxMemory limits, int64_t bytes) {
  for (DeviceLimit& limit : limits) {
    if (limit.device == kCpuDevice) limit.bytes = bytes;
  }
  return limits;
}

/// A placed model and the bytes of its parameters on each device.
struct Placed {
  DeviceMap map;
  std::map<std::string, int64_t> bytes;

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
    if (!name.starts_with(child.first)) return false;
    const std::string_view rest = name.substr(child.first.size());
    return rest.empty() || (rest.starts_with('.') && has_name(child.second, rest.substr(1)));
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

/// With room for a block that is read ahead where a block is on the disk.
Placed inferred(const PlacedModel& model, const PlacementRequest& request,
                const std::vector<Parameter>& weights, int64_t largest) {
  const ModuleSizes sizes(model.root);
  const auto infer = [&](const MaxMemory& given) {
    const bool is_even = request.kind != "sequential";
    const MaxMemory limits =
        is_even ? balanced_memory(model, given, request.kind == "balanced_low_0") : given;
    return placed_by(infer_device_map(model, limits), sizes, weights);
  };
  Placed first = infer(request.limits);
  const int64_t limit = limit_of(request.limits, kCpuDevice);
  if (!first.bytes.contains(kDiskDevice) || limit < 2 * largest) return first;
  return infer(with_cpu_limit(request.limits, limit - largest));
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

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::vector<MappedRange> ranges_of(const std::vector<Parameter>& weights) {
  std::vector<std::span<const std::byte>> bytes;
  for (const Parameter& item : weights) {
    try {
      mapped_ranges({bytes_of(item.local)});
    } catch (const std::invalid_argument&) {
      throw Error(
          ExitCode::kRecipe,
          text("'{}' cannot stay on the disk: its file has another type or layout", item.name),
          "give '--offload DIR', a folder for such weights, or raise 'cpu' in '--max-memory'");
    }
    bytes.push_back(bytes_of(item.local));
  }
  return mapped_ranges(std::move(bytes));
}

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& weights) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& item : weights) tensors.push_back(item.local);
  return tensors;
}

/// The weights on the disk of a block, or with null of the head.
struct DiskUnit {
  Block* block = nullptr;
  std::vector<Parameter> weights;

  int64_t bytes() const {
    return std::accumulate(weights.begin(), weights.end(), int64_t{0},
                           [](int64_t sum, const Parameter& item) {
                             return sum + static_cast<int64_t>(item.local.nbytes());
                           });
  }
};

/// The weights on the disk: those of blocks, then those of the head, and others.
struct DiskWeights {
  std::vector<DiskUnit> units;
  std::vector<Parameter> rest;

  std::vector<Parameter> all() const {
    std::vector<Parameter> out;
    for (const DiskUnit& unit : units) {
      out.insert(out.end(), unit.weights.begin(), unit.weights.end());
    }
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }
  int64_t largest() const {
    int64_t bytes = 0;
    for (const DiskUnit& unit : units) bytes = std::max(bytes, unit.bytes());
    return bytes;
  }
};

DiskWeights disk_weights(Model& model, const DeviceMap& map,
                         const std::vector<Parameter>& weights) {
  const auto on_disk = [&](const std::vector<Parameter>& from) {
    std::vector<Parameter> out;
    std::copy_if(from.begin(), from.end(), std::back_inserter(out),
                 [&](const Parameter& item) { return map.device_of(item.name) == kDiskDevice; });
    return out;
  };
  DiskWeights out;
  std::set<std::string> in_blocks;
  for (const BlockParameters& block : blocks_of(model)) {
    for (const Parameter& item : block.parameters) in_blocks.insert(item.name);
    std::vector<Parameter> own = on_disk(block.parameters);
    if (!own.empty()) out.units.push_back({block.block, std::move(own)});
  }
  auto* chain = dynamic_cast<BlockChain*>(&model);
  std::vector<Parameter> head;
  const at::Tensor tied = chain ? chain->tied_weight() : at::Tensor();
  bool after_blocks = false;
  for (const Parameter& item : weights) {
    const bool in_block = in_blocks.contains(item.name);
    after_blocks = after_blocks || in_block;
    if (in_block || map.device_of(item.name) != kDiskDevice) continue;
    const bool is_head = after_blocks || (tied.defined() && item.local.is_same(tied));
    (is_head && !out.units.empty() ? head : out.rest).push_back(item);
  }
  if (!head.empty()) out.units.push_back({nullptr, std::move(head)});
  return out;
}

/// Throws for more bytes on a device than its limit.
void check_limits(const Placed& placed, const PlacementRequest& request) {
  const int64_t disk_limit = limit_of(request.limits, kDiskDevice);
  if (disk_limit >= 0 && placed.on(kDiskDevice) > disk_limit) {
    throw Error(ExitCode::kRecipe,
                text("{} of weights are on the disk, and '--max-memory' allows {}",
                     bytes_text(placed.on(kDiskDevice)), bytes_text(disk_limit)),
                "raise a limit");
  }
  const int64_t cpu_limit = limit_of(request.limits, kCpuDevice);
  if (!request.devices.empty() && cpu_limit >= 0 && placed.on(kCpuDevice) > cpu_limit) {
    throw Error(ExitCode::kRecipe,
                text("{} of weights are on the CPU, and '--max-memory' allows {}",
                     bytes_text(placed.on(kCpuDevice)), bytes_text(cpu_limit)),
                "raise a limit");
  }
}

/// The bytes for streamed weights. Throws if a block or the head has more.
int64_t room_for(const DiskWeights& disk, const Placed& placed, const PlacementRequest& request) {
  if (disk.units.empty()) {
    throw Error(ExitCode::kRecipe,
                "no block of the model is on the disk, and others cannot be streamed",
                "raise 'cpu' in '--max-memory'");
  }
  const int64_t room = limit_of(request.limits, kCpuDevice) - placed.on(kCpuDevice);
  const int64_t largest = disk.largest();
  if (room >= largest) return room;
  throw Error(ExitCode::kRecipe,
              text("'cpu' of '--max-memory' leaves {} for streamed weights, and a block or the "
                   "head has {}",
                   bytes_text(std::max<int64_t>(room, 0)), bytes_text(largest)),
              text("allow 'cpu={}KiB'", (placed.on(kCpuDevice) + largest + 1023) / 1024));
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
  print_table(placed, sizes, request.kind, to);
  check_limits(placed, request);
  return placed;
}

}  // namespace

void print_placement(Model& model, const PlacementRequest& request, std::ostream& to,
                     const std::function<double()>& disk_rate) {
  const std::vector<Parameter> weights = parameters_of(model);
  const Placed placed = placed_model_of(model, weights, request, to);
  if (placed.on(kDiskDevice) == 0) {
    to << "all weights are on the CPU: nothing is streamed\n";
    return;
  }
  const DiskWeights disk = disk_weights(model, placed.map, weights);
  const int64_t room = room_for(disk, placed, request);
  int64_t bytes = 0;
  for (const DiskUnit& unit : disk.units) bytes += unit.bytes();
  to << "streamed: " << bytes_text(bytes) << " per token, at most " << bytes_text(room)
     << " of them in memory\n";
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

void add_device_flags(CLI::App& verb, PlacementFlags& to) {
  verb.add_option("--device-map", to.device_map,
                  "place weights in memory and on the disk as Accelerate does: auto, balanced, "
                  "balanced_low_0, sequential, or a JSON file of modules and devices; weights on "
                  "the disk are streamed");
  verb.add_option("--max-memory", to.max_memory,
                  "bytes of weights by device, such as cpu=4GiB,disk=20GiB; default: the memory "
                  "that is available");
}

void add_placement_flags(CLI::App& verb, PlacementFlags& to) {
  add_device_flags(verb, to);
  verb.add_option("--offload", to.offload,
                  "a folder for the weights on the disk, as Accelerate's: written if it does not "
                  "exist, else read; for weights that the model's files have in another type or "
                  "layout");
}

void refuse_placement_on_mesh(const PlacementFlags& flags) {
  if (!flags.is_set()) return;
  throw Error(ExitCode::kRecipe,
              "'--device-map', '--max-memory' and '--offload' place the model of one process",
              "leave them out, or '--mesh'");
}

MaxMemory parse_max_memory(const std::string& list) {
  MaxMemory out;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    if (equals == word.npos) {
      throw Error(ExitCode::kRecipe,
                  text("'--max-memory' has '{}', which is not DEVICE=SIZE", word), kSizeHint);
    }
    const std::string device = word.substr(0, equals);
    check_device(device, "--max-memory");
    const std::string size = word.substr(equals + 1);
    const Parsed<ByteSize> bytes = parse_byte_size({size});
    if (!bytes.value) {
      throw Error(ExitCode::kRecipe,
                  text("'--max-memory' gives '{}' the size '{}', which is not a number of bytes",
                       device, size),
                  kSizeHint);
    }
    if (limit_of(out, device) >= 0) {
      throw Error(ExitCode::kRecipe, text("'--max-memory' has '{}' twice", device), kSizeHint);
    }
    out.push_back({device, bytes.value->bytes});
  }
  if (out.empty()) throw Error(ExitCode::kRecipe, "'--max-memory' is empty", kSizeHint);
  return in_device_order(std::move(out));
}

PlacementRequest placement_request(const PlacementFlags& flags) {
  PlacementRequest out;
  if (!flags.is_set()) return out;
  if (flags.device_map.empty() && flags.max_memory.empty()) {
    throw Error(ExitCode::kRecipe, "'--offload' needs weights on the disk",
                "give '--max-memory' or '--device-map' with it");
  }
  out.offload = flags.offload;
  out.kind = flags.device_map.empty() ? kAuto : flags.device_map;
  if (!flags.max_memory.empty()) out.limits = parse_max_memory(flags.max_memory);
  if (limit_of(out.limits, kCpuDevice) < 0) {
    out.limits.push_back({kCpuDevice, available_memory()});
    out.limits = in_device_order(std::move(out.limits));
  }
  if (!is_kind(out.kind)) out.devices = devices_in(out.kind);
  return out;
}

std::unique_ptr<PlacedWeights> PlacedWeights::place(Model& model, const PlacementRequest& request) {
  if (request.kind.empty()) return nullptr;
  const std::vector<Parameter> weights = parameters_of(model);
  const Placed placed = placed_model_of(model, weights, request, std::cerr);
  if (placed.on(kDiskDevice) == 0) {
    if (!request.offload.empty()) {
      throw Error(ExitCode::kRecipe, "'--offload' has nothing to do: all weights are on the CPU",
                  "leave it out, or lower 'cpu' in '--max-memory'");
    }
    return nullptr;
  }
  const DiskWeights disk = disk_weights(model, placed.map, weights);
  const int64_t room = room_for(disk, placed, request);
  if (!request.offload.empty()) {
    OffloadFolder(request.offload).adopt(disk.all(), tied_head(model, weights));
    load_others(weights, placed.map);
  }
  auto out = std::make_unique<PlacedWeights>();
  std::vector<StreamedUnit> units;
  std::vector<MappedRange> all;
  for (const DiskUnit& unit : disk.units) {
    units.push_back({unit.block, ranges_of(unit.weights), tensors_of(unit.weights)});
    out->pass_bytes_ += units.back().bytes();
    all.insert(all.end(), units.back().ranges.begin(), units.back().ranges.end());
  }
  out->disk_rate_ = sequential_rate(all, kRateBytes);
  out->stream_ = std::make_unique<WeightStream>(std::move(units), ranges_of(disk.rest), room);
  return out;
}

void PlacedWeights::report() const {
  const StreamFigures figures = stream_->figures();
  if (figures.passes == 0) return;
  const auto passes = static_cast<double>(figures.passes);
  const auto bytes = static_cast<double>(figures.bytes);
  constexpr double kMib = 1 << 20;
  std::cerr << "streamed " << bytes_text(pass_bytes_) << " a pass: predicted "
            << static_cast<double>(pass_bytes_) / disk_rate_ << " s, measured "
            << figures.seconds / passes << " s; " << std::llround(bytes / figures.seconds / kMib)
            << " MiB/s, " << std::llround(100 * bytes / figures.seconds / disk_rate_)
            << " % of the disk's " << std::llround(disk_rate_ / kMib) << " MiB/s; at most "
            << bytes_text(figures.peak_bytes) << " of them in memory\n";
}

}  // namespace accel
