#include "models/placement/offload_folder.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "formats/tensors/safetensors.h"
#include "kernels/memory/deferred_init.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kIndex = "/index.json";
constexpr auto kNewFolder = "name a folder that does not exist, which is written";

struct NamedType {
  at::ScalarType type;
  const char* name;
};
constexpr std::array<NamedType, 10> kTypeNames = {{{at::kFloat, "float32"},
                                                   {at::kHalf, "float16"},
                                                   {at::kBFloat16, "bfloat16"},
                                                   {at::kDouble, "float64"},
                                                   {at::kLong, "int64"},
                                                   {at::kInt, "int32"},
                                                   {at::kShort, "int16"},
                                                   {at::kChar, "int8"},
                                                   {at::kByte, "uint8"},
                                                   {at::kBool, "bool"}}};

/// The name of a weight's type in numpy.
std::string type_name(const at::Tensor& tensor) {
  const auto* const found =
      std::find_if(kTypeNames.begin(), kTypeNames.end(),
                   [&](const NamedType& item) { return item.type == tensor.scalar_type(); });
  if (found != kTypeNames.end()) return found->name;
  throw Error(ExitCode::kRecipe, "'--offload' does not support the model's type of weights",
              "leave it out");
}

std::span<const std::byte> memory_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// A row in the middle of a matrix, or all of a vector.
at::Tensor sample_of(const at::Tensor& weight) {
  const c10::NoGradGuard no_grad;
  const auto options = weight.options().requires_grad(false);
  if (weight.dim() == 0 || weight.numel() == 0) return weight.detach().clone();
  std::vector<int64_t> shape = weight.sizes().vec();
  if (shape.size() > 1) shape[0] = 1;
  at::Tensor out = at::empty(shape, options);
  copy_rows(weight, shape.size() > 1 ? weight.size(0) / 2 : 0, out);
  return out;
}

}  // namespace

OffloadFolder::OffloadFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  if (!fs::exists(path_ + kIndex, error)) {
    if (fs::is_directory(path_, error) && fs::is_empty(path_, error)) return;
    throw Error(ExitCode::kRecipe,
                text("'--offload' is '{}', which has no index.json and is not empty", path_),
                kNewFolder);
  }
  is_new_ = false;
  const SharedBytes file = map_file(path_ + kIndex);
  const auto json = nlohmann::json::parse(as_text(file.view), nullptr, false);
  try {
    for (const auto& [name, item] : json.get<std::map<std::string, nlohmann::json>>()) {
      Entry entry;
      entry.dtype = item.value("dtype", "");
      entry.safetensors_file = item.value("safetensors_file", "");
      entry.weight_name = item.value("weight_name", name);
      if (entry.safetensors_file.empty()) {
        entry.shape = item.at("shape").get<std::vector<int64_t>>();
      }
      index_[name] = std::move(entry);
    }
  } catch (const nlohmann::json::exception&) {
    throw DataError(text("'{}{}' is no index of offloaded weights", path_, kIndex), kNewFolder);
  }
}

void OffloadFolder::check_type(const Parameter& weight, const Entry& entry,
                               const std::vector<int64_t>& shape) const {
  const std::string dtype = type_name(weight.local);
  const Shape wanted = weight.local.sizes().vec();
  if (entry.dtype == dtype && shape == wanted) return;
  throw DataError(text("'{}' of the offload folder '{}' is {} of {}, not {} of {}", weight.name,
                       path_, to_string(shape), entry.dtype, to_string(wanted), dtype),
                  kNewFolder);
}

SharedBytes OffloadFolder::bytes_in_safetensors(const Parameter& weight, const Entry& entry) const {
  const SharedBytes file = map_file(entry.safetensors_file);
  try {
    for (const NamedArray& item : read_safetensors(file).tensors) {
      if (item.name != entry.weight_name) continue;
      check_type(weight, entry, item.array.shape());
      if (item.array.bytes() == weight.local.nbytes()) {
        return {{item.array.data(), item.array.bytes()}, file.owner};
      }
    }
  } catch (const FormatError& fault) {
    throw DataError(text("cannot read the weights '{}': {}", entry.safetensors_file, fault.what()));
  }
  throw DataError(text("'{}' has no '{}' of the type in the index of the offload folder '{}'",
                       entry.safetensors_file, entry.weight_name, path_),
                  kNewFolder);
}

SharedBytes OffloadFolder::bytes_of(const Parameter& weight) const {
  const auto found = index_.find(weight.name);
  if (found == index_.end()) {
    throw DataError(text("the offload folder '{}' has no '{}'", path_, weight.name), kNewFolder);
  }
  if (!found->second.safetensors_file.empty()) return bytes_in_safetensors(weight, found->second);
  check_type(weight, found->second, found->second.shape);
  SharedBytes file = map_file(file_of(weight.name));
  if (file.view.size() != weight.local.nbytes()) {
    throw DataError(text("'{}' has {} bytes, not {}", file_of(weight.name), file.view.size(),
                         weight.local.nbytes()),
                    kNewFolder);
  }
  return file;
}

void OffloadFolder::check_values(const Parameter& weight, const SharedBytes& bytes) const {
  const at::Tensor sample = sample_of(weight.local);
  const int64_t rows = weight.local.dim() > 1 ? weight.local.size(0) : 1;
  const size_t first = sample.nbytes() * static_cast<size_t>(rows / 2);
  if (std::ranges::equal(memory_of(sample), bytes.view.subspan(first, sample.nbytes()))) return;
  throw DataError(
      text("'{}' of the offload folder '{}' has other values than the model", weight.name, path_),
      "it is of another checkpoint, or of a layout that the model stores transposed; "
      "name a folder that does not exist, which is written");
}

void OffloadFolder::write(const Parameter& weight) const {
  write_file_atomically(file_of(weight.name), [&](const ByteSink& sink) {
    sink(memory_of(weight.local.detach().contiguous()));
  });
}

void OffloadFolder::write_index(const std::vector<Parameter>& weights, const Alias& alias) const {
  nlohmann::ordered_json index = nlohmann::ordered_json::object();
  for (const Parameter& item : weights) {
    index[item.name] = {{"dtype", type_name(item.local)}, {"shape", item.local.sizes().vec()}};
  }
  if (index.contains(alias.tied)) {
    index[alias.alias] = index[alias.tied];
    std::error_code error;
    fs::create_hard_link(file_of(alias.tied), file_of(alias.alias), error);
    if (error) fs::copy_file(file_of(alias.tied), file_of(alias.alias));
  }
  write_file_atomically(path_ + kIndex,
                        [&](const ByteSink& sink) { sink(as_bytes(index.dump(2))); });
}

void OffloadFolder::adopt(const std::vector<Parameter>& weights, const Alias& alias) {
  const c10::NoGradGuard no_grad;
  std::vector<SharedBytes> files;
  if (is_new_) {
    for (const Parameter& item : weights) static_cast<void>(type_name(item.local));
    make_folder_of(path_ + kIndex);
  } else {
    for (const Parameter& item : weights) {
      files.push_back(bytes_of(item));
      check_values(item, files.back());
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Parameter& item = weights[i];
    if (is_new_) {
      materialize(item.local);
      write(item);
      files.push_back(map_file(file_of(item.name)));
    }
    item.local.set_data(at::from_blob(
        const_cast<std::byte*>(files[i].view.data()), item.local.sizes(),
        [owner = files[i].owner](void*) {}, item.local.options().requires_grad(false)));
  }
  if (is_new_) write_index(weights, alias);
}

}  // namespace accel
