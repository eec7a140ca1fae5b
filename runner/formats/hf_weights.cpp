#include "runner/formats/hf_weights.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "runner/formats/bytes.h"
#include "runner/formats/checksum.h"
#include "runner/formats/torch_file.h"
#include "runner/formats/weight_shards.h"

namespace accel {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kSafetensors, WeightFormat::kTorch};

/// The files of the weights: one, or an index and what it lists.
struct WeightFiles {
  std::string index;  ///< none: ""
  std::map<std::string, std::string> listed;
  std::vector<std::string> files;
};

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& why) {
  throw DataError("cannot read the weights '" + path + "': " + why);
}

WeightFiles find_weights(const std::string& folder) {
  WeightFiles out;
  std::error_code error;
  for (const WeightFormat format : kFormats) {
    const std::string index = weight_index_name(format);
    const std::string single = index.substr(0, index.find(".index.json"));
    if (std::filesystem::exists(folder + "/" + single, error)) {
      out.files = {single};
      return out;
    }
    const std::string path = folder + "/" + index;
    if (!std::filesystem::exists(path, error)) continue;
    const SharedBytes text = map_file(path);
    try {
      out.listed = read_weight_index(as_text(text.view)).files;
    } catch (const FormatError& fault) {
      throw_unreadable(path, fault.what());
    }
    out.index = index;
    std::set<std::string> files;
    for (const auto& [name, file] : out.listed) files.insert(file);
    out.files.assign(files.begin(), files.end());
    return out;
  }
  throw DataError("'" + folder +
                      "' has no weights: neither 'model.safetensors' nor 'pytorch_model.bin', nor "
                      "an index of these",
                  "give the folder that save_pretrained() wrote, or that a hub repository is");
}

std::vector<NamedArray> torch_tensors(const SharedBytes& file) {
  check_torch_file(file);
  const Value value = read_torch_file(file);
  const auto* dict = value.as<Value::Dict>();
  if (!dict) throw FormatError("it is not a dict of tensors");
  std::vector<NamedArray> out;
  for (const auto& [key, item] : dict->items) {
    const auto* name = key.as<std::string>();
    const auto* array = item.as<Array>();
    if (!name || !array) throw FormatError("it is not a dict of tensors");
    out.push_back({*name, *array});
  }
  return out;
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

/// The names that TensorFlow's checkpoints had for a norm's weights.
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
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i) {
    out += (i ? ", '" : "'") + names[i] + "'";
  }
  if (names.size() > kMostListed) {
    out += " and " + std::to_string(names.size() - kMostListed) + " more";
  }
  return out;
}

/// What keeps a folder's weights from being the model's.
struct WeightProblems {
  std::vector<std::string> missing, unexpected, twice;
  std::string misfits;

  void misfit(const std::string& name, const WantedWeight& wanted, const Array& found) {
    misfits += "; '" + name + "' is " + to_string(found.shape()) + " of " + name_of(found.type()) +
               ", not " + to_string(wanted.shape) + " of " + name_of(wanted.type);
  }

  void check(const std::string& folder, const std::string& model) const {
    std::string text;
    if (!missing.empty()) text += "; missing are " + listed(missing);
    if (!unexpected.empty()) text += "; not known are " + listed(unexpected);
    if (!twice.empty()) text += "; there twice are " + listed(twice);
    text += misfits;
    if (text.empty()) return;
    throw DataError("the weights in '" + folder + "' do not fit the model '" + model +
                    "': " + text.substr(2));
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
  for (const std::string& file : found.files) {
    add_file(file, found.index.empty() ? nullptr : &found.listed);
  }
  if (!found.index.empty() && tensors_.size() != found.listed.size()) {
    throw_unreadable(folder + "/" + found.index, "it lists " + std::to_string(found.listed.size()) +
                                                     " weights, its files hold " +
                                                     std::to_string(tensors_.size()) + " of them");
  }
}

HfWeights::HfWeights(const std::string& folder, const std::string& file, const std::string& prefix)
    : folder_(folder) {
  add_file(file, nullptr);
  for (NamedArray& tensor : tensors_) {
    if (!tensor.name.starts_with(prefix)) {
      throw_unreadable(folder + "/" + file,
                       "'" + tensor.name + "' does not begin with '" + prefix + "'");
    }
    tensor.name.erase(0, prefix.size());
  }
}

void HfWeights::add_file(const std::string& name,
                         const std::map<std::string, std::string>* wanted) {
  const std::string path = folder_ + "/" + name;
  const SharedBytes file = map_file(path);
  try {
    std::vector<NamedArray> tensors =
        name.ends_with(".safetensors") ? read_safetensors(file).tensors : torch_tensors(file);
    for (NamedArray& tensor : tensors) {
      if (wanted) {
        const auto found = wanted->find(tensor.name);
        if (found == wanted->end() || found->second != name) continue;
      }
      tensors_.push_back(std::move(tensor));
    }
  } catch (const FormatError& fault) {
    throw_unreadable(path, fault.what());
  }
  files_.push_back(file);
  forget(file.view);
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

WeightPlan plan_weights(const std::vector<WantedWeight>& wanted, const HfWeights& weights,
                        const HfNames& names, const std::string& model) {
  std::map<std::string, size_t> places;
  std::vector<std::string> known;
  for (size_t i = 0; i < wanted.size(); ++i) {
    known.push_back(names.stored_name(wanted[i].name));
    places[known[i]] = i;
  }
  WeightProblems problems;
  WeightPlan plan;
  std::set<size_t> had;
  for (const auto& [stored, array] : weights.tensors()) {
    std::string name = todays_name(stored);
    if (!places.contains(name) && places.contains(names.base + name)) name.insert(0, names.base);
    const auto place = places.find(name);
    if (place == places.end()) {
      if (!matches_any(name, names.unused)) problems.unexpected.push_back(stored);
      continue;
    }
    const WantedWeight& want = wanted[place->second];
    const bool transposed = matches_any(name, names.transposed);
    Shape shape = array.shape();
    if (transposed) std::reverse(shape.begin(), shape.end());
    if (!had.insert(place->second).second) problems.twice.push_back(name);
    const bool fits = array.type() == want.type || (is_float(array.type()) && is_float(want.type));
    if (!fits || shape != want.shape) problems.misfit(name, want, array);
    plan.placed.push_back({place->second, array, transposed});
  }
  std::set<std::string> beheaded;  // patterns that nothing of the folder matches
  for (const std::string& head : names.heads) {
    const auto fits = [&](size_t i) { return matches_hf_pattern(known[i], head); };
    if (std::none_of(had.begin(), had.end(), fits)) beheaded.insert(head);
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

}  // namespace accel
