// Model families with Hugging Face folders: `weights: DIR` of a model, and `type: auto`, which
// takes the model type from the folder.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/recipe/registry.h"
#include "models/hf/gguf_model.h"
#include "models/hf/hf_config.h"
#include "models/hf/hf_weights.h"

namespace accel {

/// Shapes of a model's weights by name; they provide sizes that the recipe left to the data.
using WeightShapes = std::map<std::string, Shape>;

/// Python files by name with which transformers loads a folder whose model it lacks.
using PythonFiles = std::map<std::string, std::string>;

/// The two-way mapping of one model to folders of transformers, with its options as a tree.
class HfFamily {
 public:
  struct Table {
    const char* component;  ///< "gpt"
    /// Whether the model reads folders of this `model_type`.
    bool (*reads)(const std::string& model_type);
    Ref<Model> (*prepare)(const Node&, Reading&);
    /// Writes the options of a resolved model to `config`, over existing keys.
    void (*write_config)(const Node& options, const WeightShapes& shapes, nlohmann::json& config);
    HfNames (*names)(const Node& options);
    bool generates;  ///< a language model with a generation_config.json
    PythonFiles (*python_files)(const nlohmann::json& config);
    std::vector<FieldInfo> (*options)();
    /// The model for llama.cpp, from `weights` in the folder's names, linear layers [out, in];
    /// null: llama.cpp has no such model.
    GgufModel (*gguf)(const Node& options, const nlohmann::json& config,
                      const std::vector<TensorSource>& weights);
  };

  explicit HfFamily(const Table& table) : table_(table), next_(chain_) { chain_ = this; }

  /// Null if no family reads the type, or has the component.
  static const Table* of_model_type(const std::string& model_type);
  static const Table* of_component(const std::string& component);
  /// Of all families, for messages.
  static std::vector<std::string> components();
  /// Of those that llama.cpp has.
  static std::vector<std::string> gguf_components();
  /// The union of the families' options without `weights`, by name; differing declarations are
  /// combined. No defaults: the folder provides them.
  static std::vector<FieldInfo> options();

 private:
  Table table_;
  const HfFamily* next_;
  static constinit inline const HfFamily* chain_ __attribute__((visibility("hidden"))) = nullptr;
};

/// `given` completed by the options of the folder. `folder` is the folder's options as a tree; its
/// `auto` options are left to the recipe. Reports options that contradict the folder, according to
/// `fields`, to `reading`, and then returns null.
Node with_folder_options(const Node& given, const Node& folder, const Node& own,
                         const std::vector<FieldInfo>& fields, Reading& reading);

/// The config of the folder at `weights`. Reports errors to `reading` and returns none if it cannot
/// be read or its type does not belong to `family`.
std::optional<HfConfig> config_for(const Node& weights, const std::string& folder,
                                   const HfFamily::Table& family, Reading& reading);
/// What a family reads besides the keys of all families.
struct HfConfigSections {
  bool quantized;        ///< `quantization_config`
  bool encoder_decoder;  ///< `is_encoder_decoder`
};
/// Reports the config's problems, and keys that nothing has read.
void report_config(HfConfig& config, const HfConfigSections& read, const Node& weights,
                   Reading& reading);

/// Compares the class names of the data with the config's `id2label`. Throws DataError for the same
/// names in another order, in which a trained head would have other classes; warns of others.
void check_label_order(const std::string& folder, const std::vector<std::string>& labels);

/// The config's `num_labels`, else the number of classes in `id2label`, else 2, as in transformers.
int64_t label_count(const HfConfig& config);
/// Writes default class names, unless the config has this number of names.
void write_labels(int64_t classes, nlohmann::json& config);

/// Checksum of the weights or the file that a prepared component, or a model among its options, is
/// initialized from; "" without any. Throws DataError.
std::string weights_fingerprint(const Node& resolved);

}  // namespace accel
