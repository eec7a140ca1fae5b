// Mapping and loading of weights.
#include "models/hf/hf_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "core/api/model.h"
#include "core/base/activity.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "formats/checksum.h"
#include "formats/tensors/torch_file.h"
#include "formats/tensors/weight_shards.h"
#include "kernels/choice.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/memory/skip_init.h"
#include "kernels/transpose.h"
#include "models/hf/map_hf_weights.h"
#include "models/hf/own_head.h"
#include "models/layers/module_state.h"
#include "models/quantized/frozen_weight.h"

namespace accel {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kSafetensors, WeightFormat::kTorch};

/// The weight files: one, or several with an index.
struct WeightFiles {
  std::string index_file;  ///< empty: none
  WeightIndex index;
  std::set<std::string> files;
};

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& why) {
  throw DataError(accel::text("cannot read the weights '{}': {}", path, why));
}

WeightFiles find_weights(const std::string& folder) {
  WeightFiles out;
  std::error_code error;
  for (const WeightFormat format : kFormats) {
    const std::string index_file = weight_index_name(format);
    const std::string single = index_file.substr(0, index_file.find(".index.json"));
    if (std::filesystem::exists(folder + "/" + single, error)) {
      out.files = {single};
      return out;
    }
    const std::string path = folder + "/" + index_file;
    if (!std::filesystem::exists(path, error)) continue;
    const SharedBytes text = map_file(path);
    try {
      out.index = read_weight_index(as_text(text.view));
    } catch (const FormatError& fault) {
      throw_unreadable(path, fault.what());
    }
    out.index_file = index_file;
    out.files = out.index.shards();
    return out;
  }
  throw DataError(accel::text("'{}' has no weights: neither 'model.safetensors' nor "
                              "'pytorch_model.bin', nor an index of these",
                              folder),
                  "name a folder of save_pretrained() or of a hub repository");
}

std::vector<NamedArray> torch_tensors(const SharedBytes& file) {
  check_torch_file(file);
  return state_dict_tensors(read_torch_file(file));
}

template <class T>
void transpose(const Array& from, Array& to) {
  const auto rows = static_cast<size_t>(from.shape()[0]);
  const auto columns = static_cast<size_t>(from.shape()[1]);
  const auto in = from.as<T>();
  const auto out = to.mutable_as<T>();
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      out[column * rows + row] = in[row * columns + column];
    }
  }
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_hf_pattern(name, pattern); });
}

bool is_float(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}

/// Renames the norm weights of converted TensorFlow checkpoints.
std::string todays_name(std::string name) {
  for (const auto& [old, today] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")}) {
    if (name.ends_with(std::string("LayerNorm").append(old))) {
      return name.substr(0, name.rfind('.')) + today;
    }
  }
  return name;
}

/// "'a', 'b' and 3 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMostListed = 20;
  if (names.size() <= kMostListed) return quoted_list(names);
  return accel::text("{} and {} more", quoted_list(std::span(names).first(kMostListed)),
                     names.size() - kMostListed);
}

/// Mismatches between a folder's weights and the model's.
struct WeightProblems {
  std::vector<std::string> missing, unexpected, twice;
  std::string misfits;

  void misfit(const std::string& name, const WantedWeight& wanted, const Array& found) {
    misfits += accel::text("; '{}' is {} of {}, not {} of {}", name, to_string(found.shape()),
                           name_of(found.type()), to_string(wanted.shape), name_of(wanted.type));
  }

  void untied(const std::string& weight, const std::string& table) {
    misfits += accel::text("; '{}' differs from '{}', to which the model ties it", weight, table);
  }

  void check(const std::string& folder, const std::string& model) const {
    std::string text;
    if (!missing.empty()) text += accel::text("; missing are {}", listed(missing));
    if (!unexpected.empty()) text += accel::text("; not known are {}", listed(unexpected));
    if (!twice.empty()) text += accel::text("; there twice are {}", listed(twice));
    text += misfits;
    if (text.empty()) return;
    throw DataError(accel::text("the weights in '{}' do not fit the model '{}': {}", folder, model,
                                text.substr(2)));
  }
};

}  // namespace

bool matches_hf_pattern(const std::string& name, const std::string& pattern) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

HfWeights::HfWeights(const std::string& folder) : folder_(folder) {
  const WeightFiles found = find_weights(folder);
  if (found.index_file.empty()) {
    tensors_ = open(*found.files.begin());
    return;
  }
  try {
    tensors_ = read_weight_shards(found.index, [&](const std::string& file) { return open(file); });
  } catch (const FormatError& fault) {
    throw_unreadable(folder + "/" + found.index_file, fault.what());
  }
}

HfWeights::HfWeights(const std::string& folder, const std::string& file, const std::string& prefix)
    : folder_(folder) {
  tensors_ = open(file);
  for (NamedArray& tensor : tensors_) {
    if (!tensor.name.starts_with(prefix)) {
      throw_unreadable(folder + "/" + file,
                       accel::text("'{}' does not begin with '{}'", tensor.name, prefix));
    }
    tensor.name.erase(0, prefix.size());
  }
}

void HfWeights::rename(const std::function<std::string(const std::string&)>& new_name) {
  for (NamedArray& tensor : tensors_) tensor.name = new_name(tensor.name);
}

std::vector<NamedArray> HfWeights::open(const std::string& name) {
  const std::string path = folder_ + "/" + name;
  const SharedBytes file = map_file(path);
  std::vector<NamedArray> out;
  try {
    out = name.ends_with(".safetensors") ? read_safetensors(file).tensors : torch_tensors(file);
  } catch (const FormatError& fault) {
    throw_unreadable(path, fault.what());
  }
  files_.push_back(file);
  forget(file.view);
  return out;
}

void HfWeights::forget(ByteSpan bytes) const {
  for (const SharedBytes& file : files_) forget_pages(file, bytes);
}

std::string hf_weights_fingerprint(const std::string& folder) {
  constexpr size_t kPieceBytes = size_t{16} << 20;
  Checksum sum;
  for (const std::string& name : find_weights(folder).files) {
    const SharedBytes file = map_file(folder + "/" + name);
    for (ByteSpan left = file.view; !left.empty();) {
      const ByteSpan piece = left.first(std::min(left.size(), kPieceBytes));
      sum.update(piece);
      forget_pages(file, piece);
      left = left.subspan(piece.size());
    }
  }
  return hex_text(sum.value());
}

namespace {

/// Indices of the wanted weights by their names in folders, `known`. A file that a script wrote of
/// transformers' state_dict has the names of its module, where these differ.
std::map<std::string, size_t> places_of(const std::vector<WantedWeight>& wanted,
                                        const std::vector<std::string>& known,
                                        const HfNames& names) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < wanted.size(); ++i) places[known[i]] = i;
  for (size_t i = 0; names.module.name && i < wanted.size(); ++i) {
    places.emplace(names.module.name(wanted[i].name), i);
  }
  return places;
}

/// Whether the model has the head of `names.tied_head`, which the folder has, with another weight
/// than its embedding. `beheaded`: patterns of heads that the folder lacks.
bool has_untied_head(const std::vector<std::string>& known, const std::set<std::string>& beheaded,
                     const HfWeights& weights, const HfNames& names) {
  const std::string &weight = names.tied_head.weight, &table = names.tied_head.table;
  const bool has_head = std::ranges::any_of(names.heads, [&](const std::string& head) {
    return !weight.empty() && matches_hf_pattern(weight, head) && !beheaded.contains(head) &&
           std::ranges::any_of(
               known, [&](const std::string& name) { return matches_hf_pattern(name, head); });
  });
  return has_head &&
         has_own_head(weights.tensors(), {weight}, {table, table.substr(names.base.size())});
}

}  // namespace

WeightPlan plan_weights(const std::vector<WantedWeight>& wanted, const HfWeights& weights,
                        const HfNames& names, const std::string& model) {
  std::vector<std::string> known;
  for (const WantedWeight& want : wanted) known.push_back(names.stored_name(want.name));
  const std::map<std::string, size_t> places = places_of(wanted, known, names);
  WeightProblems problems;
  WeightPlan plan;
  std::set<size_t> had;
  for (const auto& [stored, array] : weights.tensors()) {
    std::string name = todays_name(stored);
    if (!names.other_base.empty() && name.starts_with(names.other_base)) {
      name.replace(0, names.other_base.size(), names.base);
    }
    if (!places.contains(name) && places.contains(names.base + name)) name.insert(0, names.base);
    const auto place = places.find(name);
    if (place == places.end()) {
      if (!matches_any(name, names.unused)) problems.unexpected.push_back(stored);
      continue;
    }
    const WantedWeight& want = wanted[place->second];
    Shape shape = array.shape();
    // Quantized weights are flat, or as the model has them.
    const bool transposed = shape.size() == 2 && array.type() != DType::kI8 &&
                            matches_any(known[place->second], names.transposed);
    if (transposed) std::reverse(shape.begin(), shape.end());
    if (!had.insert(place->second).second) problems.twice.push_back(name);
    const bool fits = array.type() == want.type || (is_float(array.type()) && is_float(want.type));
    if (!fits || shape != want.shape) problems.misfit(name, want, array);
    plan.placed.push_back({place->second, array, transposed});
  }
  std::set<std::string> beheaded;  // patterns of heads that the folder lacks
  for (const std::string& head : names.heads) {
    const auto fits = [&](size_t i) { return matches_hf_pattern(known[i], head); };
    if (std::none_of(had.begin(), had.end(), fits)) beheaded.insert(head);
  }
  if (has_untied_head(known, beheaded, weights, names)) {
    problems.untied(names.tied_head.weight, names.tied_head.table);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (had.contains(i)) continue;
    const auto fits = [&](const std::string& head) { return matches_hf_pattern(known[i], head); };
    const bool fresh = std::any_of(beheaded.begin(), beheaded.end(), fits);
    (fresh ? plan.fresh : problems.missing).push_back(known[i]);
  }
  problems.check(weights.folder(), model);
  return plan;
}

NamedArray stored_weight(const NamedArray& weight, const HfNames& names) {
  const Shape& shape = weight.array.shape();
  const std::string name = names.stored_name(weight.name);
  if (shape.size() != 2 || !matches_any(name, names.transposed)) return {name, weight.array};
  Array out(weight.array.type(), {shape[1], shape[0]});
  switch (size_of(weight.array.type())) {
    case 1:
      transpose<uint8_t>(weight.array, out);
      break;
    case 2:
      transpose<uint16_t>(weight.array, out);
      break;
    case 4:
      transpose<uint32_t>(weight.array, out);
      break;
    default:
      transpose<uint64_t>(weight.array, out);
  }
  return {name, std::move(out)};
}

namespace {

/// Pages of the file are released after each piece of this size.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

constexpr std::array<std::pair<at::ScalarType, DType>, 9> kWeightTypes = {{
    {at::ScalarType::Float, DType::kF32},
    {at::ScalarType::Half, DType::kF16},
    {at::ScalarType::BFloat16, DType::kBF16},
    {at::ScalarType::Double, DType::kF64},
    {at::ScalarType::Long, DType::kI64},
    {at::ScalarType::Int, DType::kI32},
    {at::ScalarType::Bool, DType::kBool},
    {at::ScalarType::Byte, DType::kU8},
    {at::ScalarType::Char, DType::kI8},
}};

DType type_of(at::ScalarType type) {
  const auto found = std::find_if(kWeightTypes.begin(), kWeightTypes.end(),
                                  [&](const auto& pair) { return pair.first == type; });
  return found->second;
}

at::Tensor view_of(const std::byte* data, DType type, const Shape& shape) {
  const auto found = std::find_if(kWeightTypes.begin(), kWeightTypes.end(),
                                  [&](const auto& pair) { return pair.second == type; });
  return at::from_blob(const_cast<std::byte*>(data), shape,
                       at::TensorOptions().dtype(found->first));
}

/// Rows [begin, end) of the first dimension as a tensor.
at::Tensor rows_of(const Array& array, int64_t begin, int64_t end, Array& aligned) {
  Shape shape = array.shape();
  const size_t row = array.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = end - begin;
  const std::byte* data = array.data() + row * static_cast<size_t>(begin);
  if (reinterpret_cast<uintptr_t>(data) % size_of(array.type()) != 0) {
    aligned = Array(array.type(), shape);
    std::memcpy(aligned.mutable_data(), data, aligned.bytes());
    data = aligned.data();
  }
  return view_of(data, array.type(), shape);
}

/// Writes rows of the stored matrix as columns of `to`. `first`: the column of the first row of
/// `to`.
void copy_columns(const at::Tensor& rows, int64_t first, const at::Tensor& to) {
  const bool is_plain = to.is_cpu() && to.stride(1) == 1 && to.scalar_type() == at::kFloat &&
                        rows.scalar_type() == at::kFloat && !has_shapes_only();
  const at::Tensor part = rows.narrow(1, first, to.size(0));
  if (!is_plain) {
    to.t().copy_(part);
    return;
  }
  copy_transposed({part.const_data_ptr<float>(), part.size(0), part.size(1), part.stride(0)},
                  to.mutable_data_ptr<float>(), to.stride(0));
}

/// Writes rows [first, first + weight.size(0)) of a model's weight.
void fill(const at::Tensor& weight, int64_t first, const PlacedWeight& from,
          const HfWeights& weights) {
  const at::NoGradGuard no_grad;
  const Array& array = from.array;
  if (array.count() == 0) return;
  Array aligned;
  if (array.shape().empty()) {
    Array one(array.type(), {1}, array.data(), array.owner());
    weight.view({1}).copy_(rows_of(one, 0, 1, aligned));
    return;
  }
  // In the order of the file.
  const int64_t begins = from.transposed ? 0 : first;
  const int64_t ends = begins + weight.size(from.transposed ? 1 : 0);
  const auto row_bytes = static_cast<int64_t>(array.bytes()) / array.shape()[0];
  const int64_t step = std::max<int64_t>(1, kPieceBytes / row_bytes);
  for (int64_t begin = begins; begin < ends; begin += step) {
    const int64_t end = std::min(ends, begin + step);
    const at::Tensor rows = rows_of(array, begin, end, aligned);
    if (from.transposed) {
      copy_columns(rows, first, weight.narrow(1, begin, end - begin));
    } else {
      weight.narrow(0, begin - begins, end - begin).copy_(rows);
    }
    weights.forget(
        {array.data() + begin * row_bytes, static_cast<size_t>(row_bytes * (end - begin))});
  }
}

thread_local bool maps_weights = false;
thread_local std::optional<at::ScalarType> mapped_dtype;

/// Lets the weight share the file's bytes where they have its type and layout. Scales of quantized
/// weights have one type.
bool adopt(const Parameter& into, const PlacedWeight& from) {
  const at::Tensor& weight = into.local;
  const Array& array = from.array;
  const bool aligned = reinterpret_cast<uintptr_t>(array.data()) % size_of(array.type()) == 0;
  const bool plain =
      weight.is_contiguous() && !weight.is_view() && weight.storage().use_count() == 1;
  const at::ScalarType own = weight.scalar_type();
  const bool is_converted = at::isFloatingType(own) && !is_scale_name(into.name);
  const at::ScalarType type = is_converted ? mapped_dtype.value_or(own) : own;
  if (from.transposed || !aligned || !plain || type_of(type) != array.type()) return false;
  const at::NoGradGuard no_grad;
  weight.set_data(at::from_blob(
      const_cast<std::byte*>(array.data()), array.shape(), [held = array](void*) {},
      weight.options().dtype(type).requires_grad(false)));
  return true;
}

}  // namespace

MapHfWeights::MapHfWeights(std::optional<at::ScalarType> dtype) {
  maps_weights = true;
  mapped_dtype = dtype;
}

MapHfWeights::~MapHfWeights() {
  maps_weights = false;
  mapped_dtype.reset();
}

bool MapHfWeights::is_active() {
  return maps_weights;
}

std::vector<std::string> load_weights(const std::vector<Parameter>& into, const HfWeights& weights,
                                      const HfNames& names, const std::string& model) {
  std::vector<WantedWeight> wanted;
  for (const Parameter& item : into) {
    wanted.push_back({item.name, type_of(item.local.scalar_type()), item.local.sizes().vec()});
  }
  WeightPlan plan = plan_weights(wanted, weights, names, model);
  const auto source = std::make_shared<const HfWeights>(weights);
  Activity shown("loading weights", "tensors");
  int64_t filled = 0;
  for (const PlacedWeight& placed : plan.placed) {
    shown.progress(filled++, static_cast<int64_t>(plan.placed.size()));
    if (MapHfWeights::is_active() && adopt(into[placed.wanted], placed)) continue;
    write_rows(into[placed.wanted].local, [source, placed](const at::Tensor& to, int64_t first) {
      fill(to, first, placed, *source);
    });
  }
  return std::move(plan.fresh);
}

void load_hf_weights(Model& model, const std::string& folder, const HfNames& names,
                     const std::string& name) {
  load_hf_weights(model, HfWeights(folder), names, name);
}

void load_hf_weights(Model& model, const HfWeights& weights, const HfNames& names,
                     const std::string& name) {
  std::vector<Parameter> own = parameters_of(model);
  for (Parameter& buffer : buffers_of(model)) own.push_back(std::move(buffer));
  const std::vector<std::string> fresh = load_weights(own, weights, names, name);
  if (fresh.empty()) return;
  if (MapHfWeights::is_active()) {
    throw DataError(accel::text("'{}' is a model without a head: it has no {}", weights.folder(),
                                quoted_list(fresh)),
                    "name the folder of a model with this head, or train it first");
  }
  if (SkipInit::is_active() || has_shapes_only()) return;  // a checkpoint has them; that of a plan
  warn(accel::text("not in '{}' and new: {}", weights.folder(), quoted_list(fresh)));
}

}  // namespace accel
