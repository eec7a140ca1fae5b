#include "runner/placement/placement_request.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/hardware_info.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"
#include "runner/launch/memory_limits.h"
#include "train/job/device.h"

namespace accel {
namespace {

constexpr auto kAuto = "auto";
constexpr const char* kKinds[] = {kAuto, "balanced", "balanced_low_0", "sequential"};
constexpr auto kSizeHint = "give sizes such as '--max-memory cpu=4GiB,disk=20GiB'";

bool is_kind(const std::string& word) {
  return std::find(std::begin(kKinds), std::end(kKinds), word) != std::end(kKinds);
}

/// Throws for devices that inference does not use.
void check_device(const std::string& device, const char* flag) {
  if (device == kCpuDevice || device == kDiskDevice || device == kGpuDevice) return;
  if (!is_number(device)) {
    throw Error(ExitCode::kRecipe, text("'{}' has the device '{}'", flag, device),
                "devices are cpu, disk and the numbers of GPUs");
  }
  throw Error(ExitCode::kRecipe,
              text("'{}' has GPU {}, and a process computes on one, GPU 0", flag, device),
              "name 0, cpu and disk; '--mesh accelerator.parallelism.pp=2' divides a model over "
              "GPUs");
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

/// -1: none.
int64_t bytes_for(const MaxMemory& limits, const std::string& device) {
  const auto found = std::find_if(limits.begin(), limits.end(),
                                  [&](const DeviceLimit& item) { return item.device == device; });
  return found == limits.end() ? -1 : found->bytes;
}

}  // namespace

bool is_number(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool PlacementRequest::names_gpu() const {
  return limit_of(kGpuDevice) >= 0 ||
         std::any_of(devices.begin(), devices.end(),
                     [](const auto& item) { return item.second == kGpuDevice; });
}

int64_t PlacementRequest::limit_of(const std::string& device) const {
  return bytes_for(limits, device);
}

void add_device_flag(CLI::App& verb, PlacementFlags& to) {
  verb.add_option("--device", to.device,
                  "where to compute: cuda, cpu, or auto, the GPU where there is one; default: auto")
      ->check(CLI::IsMember({kAuto, "cpu", "cuda"}));
}

void add_device_map_flags(CLI::App& verb, PlacementFlags& to) {
  verb.add_option("--device-map", to.device_map,
                  "place weights on the GPU, in memory and on the disk as Accelerate does: auto, "
                  "balanced, balanced_low_0, sequential, or a JSON file of modules and devices; "
                  "others than those of the device that computes are streamed");
  verb.add_option("--max-memory", to.max_memory,
                  "bytes of weights by device, such as 0=10GiB,cpu=4GiB,disk=20GiB with 0 for the "
                  "GPU; default: the memory that is available");
}

void add_placement_flags(CLI::App& verb, PlacementFlags& to) {
  add_device_flag(verb, to);
  add_device_map_flags(verb, to);
  verb.add_option("--offload", to.offload,
                  "a folder for the weights on the disk, as Accelerate's: written if it does not "
                  "exist, else read; for weights that the model's files have in another type or "
                  "layout");
}

void refuse_placement_on_mesh(const PlacementFlags& flags) {
  if (flags.device != kAuto) {
    throw Error(ExitCode::kRecipe, "'--device' is of the model of one process",
                "set accelerator.device=cpu or cuda behind '--mesh'");
  }
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
    if (bytes_for(out, device) >= 0) {
      throw Error(ExitCode::kRecipe, text("'--max-memory' has '{}' twice", device), kSizeHint);
    }
    out.push_back({device, bytes.value->bytes});
  }
  if (out.empty()) throw Error(ExitCode::kRecipe, "'--max-memory' is empty", kSizeHint);
  return in_device_order(std::move(out));
}

PlacementRequest placement_request(const PlacementFlags& flags) {
  PlacementRequest out;
  for (const auto& [choice, name] : EnumNames<DeviceChoice>::kValues) {
    if (flags.device == name) out.device = choice;
  }
  if (!flags.is_set()) return out;
  if (flags.device_map.empty() && flags.max_memory.empty()) {
    throw Error(ExitCode::kRecipe, "'--offload' needs weights on the disk",
                "give '--max-memory' or '--device-map' with it");
  }
  out.offload = flags.offload;
  out.kind = flags.device_map.empty() ? kAuto : flags.device_map;
  out.has_limits = !flags.max_memory.empty();
  if (out.has_limits) out.limits = parse_max_memory(flags.max_memory);
  if (out.limit_of(kCpuDevice) < 0) {
    out.limits.push_back({kCpuDevice, available_memory()});
    out.limits = in_device_order(std::move(out.limits));
  }
  if (!is_kind(out.kind)) out.devices = devices_in(out.kind);
  return out;
}

namespace {

/// Bytes that are free on the GPU.
int64_t free_memory_of(at::Device device) {
  if (!device.is_cuda()) return available_memory();
  SharedLibrary driver("libcuda.so.1");
  int (*memory)(size_t*, size_t*) = nullptr;
  size_t free = 0, total = 0;
  if (driver.find("cuMemGetInfo_v2", memory) && memory(&free, &total) == 0) {
    return static_cast<int64_t>(free);
  }
  throw Error(ExitCode::kRecipe, "the free memory of the GPU is not known",
              "give '--max-memory 0=SIZE,cpu=SIZE'");
}

DeviceChoice wanted_device(const PlacementRequest& request) {
  const bool names_gpu = request.names_gpu();
  const bool places_elsewhere = !names_gpu && (request.has_limits || !request.devices.empty());
  if (names_gpu && request.device == DeviceChoice::kCpu) {
    throw Error(ExitCode::kRecipe, "'--device' is cpu, and weights are placed on the GPU",
                "leave '--device' out, or place them on cpu and disk");
  }
  if (places_elsewhere && request.device == DeviceChoice::kCuda) {
    throw Error(ExitCode::kRecipe, "'--device' is cuda, and no weights are placed on the GPU",
                "add a limit of the GPU, such as '--max-memory 0=10GiB,cpu=4GiB'");
  }
  if (places_elsewhere) return DeviceChoice::kCpu;
  return names_gpu ? DeviceChoice::kCuda : request.device;
}

}  // namespace

at::Device choose_inference_device(PlacementRequest& request) {
  constexpr double kShare = 0.9;  // the rest is for caches and activations
  const DeviceChoice wanted = wanted_device(request);
  const bool has_fake_device = environment_variable("ACCEL_HOST_DEVICE").has_value();
  if (wanted == DeviceChoice::kCuda && gpus_here() == 0 && !has_fake_device) {
    throw Error(ExitCode::kRecipe,
                request.names_gpu() ? "weights are placed on GPU 0, and this machine has no GPU"
                                    : "'--device' is cuda, and this machine has no GPU",
                "use cpu");
  }
  const at::Device device = choose_device(wanted, "all", 0);
  if (!device.is_cpu()) std::cerr << text("computes on {}\n", device_text(device));
  load_gpu_kernels(device);
  if (!device.is_cpu() && !request.kind.empty() && request.limit_of(kGpuDevice) < 0) {
    const auto free = static_cast<double>(free_memory_of(device));
    request.limits.push_back({kGpuDevice, static_cast<int64_t>(kShare * free)});
    request.limits = in_device_order(std::move(request.limits));
  }
  return device;
}

}  // namespace accel
