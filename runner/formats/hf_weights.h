// The weights of a Hugging Face model folder, and which of them a model wants.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/formats/mapped_file.h"
#include "runner/formats/safetensors.h"

namespace accel {

/// model.safetensors or pytorch_model.bin, whole or in shards with an index, mapped and not read.
class HfWeights {
 public:
  /// Throws DataError for a folder without weights and for files that are damaged.
  explicit HfWeights(const std::string& folder);
  /// One file of the folder, of whose names `prefix` is left out. Throws DataError, also for a name
  /// without it.
  HfWeights(const std::string& folder, const std::string& file, const std::string& prefix);

  const std::string& folder() const { return folder_; }
  const std::vector<NamedArray>& tensors() const { return tensors_; }
  /// Gives back the memory that looking at these bytes took; looking again takes it again.
  void forget(ByteSpan bytes) const;

 private:
  void add_file(const std::string& name, const std::map<std::string, std::string>* wanted);

  std::string folder_;
  std::vector<SharedBytes> files_;
  std::vector<NamedArray> tensors_;
};

/// A checksum of the files that HfWeights reads, as text. Throws DataError.
std::string hf_weights_fingerprint(const std::string& folder);

/// How a folder names and shapes what a model of ours has, mostly under the names of today's
/// transformers.
/// A pattern is a name, or "*" with the end or the beginning of one: "*.attn.bias", "cls.*".
struct HfNames {
  std::string base;  ///< what names in a folder of the model without head lack: "transformer."
  std::vector<std::string> transposed = {};  ///< patterns of linear weights stored [in, out]
  std::vector<std::string> unused = {};      ///< patterns of what folders may hold for nothing
  std::vector<std::string> heads = {};       ///< patterns of what may be missing, each as a whole
  /// Makes a folder's name of the model's own, where they differ; patterns are of a folder's names.
  std::string (*stored)(const std::string& name) = nullptr;

  std::string stored_name(const std::string& name) const { return stored ? stored(name) : name; }
};

struct WantedWeight {
  std::string name;
  DType type;
  Shape shape;
};

/// Which tensor of a folder becomes which weight.
struct PlacedWeight {
  size_t wanted;  ///< position among the wanted ones
  Array array;
  bool transposed;
};

struct WeightPlan {
  std::vector<PlacedWeight> placed;
  std::vector<std::string> fresh;  ///< a folder's names of a head that this one does not have
};

/// Throws DataError that tells all weights that are missing, unexpected, or of another shape or
/// kind of number. `model` names it in the message.
WeightPlan plan_weights(const std::vector<WantedWeight>& wanted, const HfWeights& weights,
                        const HfNames& names, const std::string& model);

bool matches_hf_pattern(const std::string& name, const std::string& pattern);

/// A weight as a folder stores it: under its name, and [out, in] as [in, out] where `names` says
/// so.
NamedArray stored_weight(const NamedArray& weight, const HfNames& names);

}  // namespace accel
