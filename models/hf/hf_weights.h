// Weights of Hugging Face folders: names, mapping to a model, and loading.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/api/batch.h"
#include "core/base/mapped_file.h"
#include "formats/tensors/safetensors.h"

namespace accel {

/// model.safetensors or pytorch_model.bin, single or sharded with an index; memory-mapped.
class HfWeights {
 public:
  /// Throws DataError for a folder without weights and for damaged files.
  explicit HfWeights(const std::string& folder);
  /// One file of the folder; `prefix` is removed from all names. Throws DataError, also for a name
  /// without it.
  HfWeights(const std::string& folder, const std::string& file, const std::string& prefix);

  const std::string& folder() const { return folder_; }
  const std::vector<NamedArray>& tensors() const { return tensors_; }
  /// Replaces all names.
  void rename(const std::function<std::string(const std::string&)>& new_name);
  /// Replaces all tensors, by others whose bytes are in the same files or owned.
  void replace(std::vector<NamedArray> tensors) { tensors_ = std::move(tensors); }
  /// Releases the pages of these bytes; later access reads them again.
  void forget(ByteSpan bytes) const;

 private:
  std::vector<NamedArray> open(const std::string& name);

  std::string folder_;
  std::vector<SharedBytes> files_;
  std::vector<NamedArray> tensors_;
};

/// Checksum of the files that HfWeights reads. Throws DataError.
std::string hf_weights_fingerprint(const std::string& folder);

/// A place in a weight of transformers' module that joins weights of the model: row `row` of it,
/// and there the share `column`.
struct HfFusedPlace {
  std::string name;
  size_t row, column;
};

/// The parameters of transformers' module (version 5), whose names and order may differ from those
/// of folders: the state_dict of a script and the ids of its optimizer.
struct HfModule {
  /// Converts the model's name; null: equal names.
  std::string (*name)(const std::string& name) = nullptr;
  /// The place of a weight that the module joins with others; null: there is none.
  std::optional<HfFusedPlace> (*fused)(const std::string& name) = nullptr;
  /// Pairs of a module and a sibling after which transformers registers it, by the module's names.
  std::vector<std::pair<std::string, std::string>> later = {};
  /// Whether the built-in names and layouts are those of a module that people write themselves, so
  /// that only models from folders have transformers'.
  bool from_folders_only = false;
};

/// The weight of a head that the model ties to an embedding, in the folder's names. Folders may
/// have both, with the same values.
struct HfTiedHead {
  std::string weight, table;  ///< none: ""
};

/// Names and layouts of a model's weights in folders, by default the model's own. A pattern is a
/// name, or a name with "*" at one end: "*.attn.bias", "cls.*".
struct HfNames {
  std::string base;  ///< what names in a folder of the model without head lack: "transformer."
  std::vector<std::string> transposed = {};  ///< patterns of linear weights stored [in, out]
  std::vector<std::string> unused = {};      ///< patterns of ignored names
  std::vector<std::string> heads = {};       ///< patterns of optional heads, each all or nothing
  /// Converts the model's name to the folder's; null: equal names. Patterns apply to the folder's
  /// names.
  std::string (*stored)(const std::string& name) = nullptr;
  HfModule module = {};
  /// Another prefix in folders, read as `base`: that of a model with another head. None: "".
  std::string other_base = {};
  /// The embedding whose weight is also the head of a language model: "model.embed_tokens.weight";
  /// none: "".
  std::string tied_table = {};
  /// The inverse of `stored`, for models whose layers can have adapters.
  std::string (*loaded)(const std::string& name) = nullptr;
  /// The last part of names of linear layers that are not quantized: transformers'
  /// _keep_in_fp32_modules; none: "".
  std::string unquantized = {};
  HfTiedHead tied_head = {};

  std::string stored_name(const std::string& name) const { return stored ? stored(name) : name; }
  std::string model_name(const std::string& name) const { return loaded ? loaded(name) : name; }
};

struct WantedWeight {
  std::string name;
  DType type;
  Shape shape;
};

/// Assignment of a folder's tensor to a weight.
struct PlacedWeight {
  size_t wanted;  ///< index into the wanted weights
  Array array;
  bool transposed;
};

struct WeightPlan {
  std::vector<PlacedWeight> placed;
  std::vector<std::string> fresh;  ///< folder's names of a missing head's weights
};

/// Throws DataError listing all weights that are missing, unexpected, or of another shape or type.
/// `model` names the model in the message.
WeightPlan plan_weights(const std::vector<WantedWeight>& wanted, const HfWeights& weights,
                        const HfNames& names, const std::string& model);

bool matches_hf_pattern(const std::string& name, const std::string& pattern);

/// A weight in the folder's name and layout: transposed to [in, out] according to `names`.
NamedArray stored_weight(const NamedArray& weight, const HfNames& names);

class Model;

/// Copies weights into tensors of these names, in place and converted to their types. Returns the
/// weights of a missing head. Throws DataError for mismatches; `model` names the model.
std::vector<std::string> load_weights(const std::vector<Parameter>& into, const HfWeights& weights,
                                      const HfNames& names, const std::string& model);

/// Loads the folder's weights into the model, in place and converted to its types. Throws DataError
/// for mismatches, and for a missing head under MapHfWeights.
void load_hf_weights(Model& model, const std::string& folder, const HfNames& names,
                     const std::string& name);
void load_hf_weights(Model& model, const HfWeights& weights, const HfNames& names,
                     const std::string& name);

}  // namespace accel
