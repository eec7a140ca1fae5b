// Accelerate's offload folder: a file of raw bytes per weight, and an index.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/api/parameter.h"
#include "core/base/mapped_file.h"

namespace accel {

/// NAME.dat with the bytes of a weight, and index.json with types and shapes, as
/// accelerate.utils.offload_state_dict() writes them. An entry may name a safetensors file instead.
/// Weights have the model's names and layouts.
class OffloadFolder {
 public:
  /// Reads the index of an existing folder. Throws Error(kRecipe) for a folder with other content,
  /// and DataError for a damaged index.
  explicit OffloadFolder(std::string path);

  bool is_new() const { return is_new_; }
  /// The weights read the files of the folder, into which a new one writes them, one at a time and
  /// the index last. Deferred weights get no memory. Throws DataError unless an existing folder has
  /// all of them with these types, shapes and values. A new folder has also `alias`, another name
  /// of the weight `tied`, for modules of transformers that register both; "": none.
  struct Alias {
    std::string alias, tied;
  };
  void adopt(const std::vector<Parameter>& weights, const Alias& alias = {});

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;  ///< of a .dat file
    std::string safetensors_file, weight_name;
  };

  std::string file_of(const std::string& name) const { return path_ + "/" + name + ".dat"; }
  SharedBytes bytes_of(const Parameter& weight) const;
  SharedBytes bytes_in_safetensors(const Parameter& weight, const Entry& entry) const;
  void check_type(const Parameter& weight, const Entry& entry,
                  const std::vector<int64_t>& shape) const;
  void check_values(const Parameter& weight, const SharedBytes& bytes) const;
  void write(const Parameter& weight) const;
  void write_index(const std::vector<Parameter>& weights, const Alias& alias) const;

  std::string path_;
  bool is_new_ = true;
  std::map<std::string, Entry> index_;
};

}  // namespace accel
