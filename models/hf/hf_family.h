// Model families with Hugging Face folders: `weights: DIR` of a model, and `type: auto`, which
// takes the model type from the folder.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/recipe/deprecated_names.h"
#include "core/recipe/registry.h"
#include "models/hf/hf_config.h"
#include "models/hf/hf_weights.h"
#include "models/lora/lora.h"
#include "models/lora/lora_folder.h"

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
  };

  explicit HfFamily(const Table& table) : table_(table), next_(chain_) { chain_ = this; }

  /// Null if no family reads the type, or has the component.
  static const Table* of_model_type(const std::string& model_type);
  static const Table* of_component(const std::string& component);
  /// Of all families, for messages.
  static std::vector<std::string> components();
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
void report_config(HfConfig& config, const Node& weights, Reading& reading);

/// Number of classes in the config's `id2label`; without it 2, as in transformers.
int64_t label_count(const HfConfig& config);
/// Writes default class names, unless the config has this number of names.
void write_labels(int64_t classes, nlohmann::json& config);

/// Checksum of the weights or the file that a prepared component, or a model among its options, is
/// initialized from; "" without any. Throws DataError.
std::string weights_fingerprint(const Node& resolved);

/// Options of a model that supports adapters.
template <class Options>
concept HasLora = requires(Options options) {
  {options.lora};
};

/// Declares the FilePath option `weights` of a model, and `lora` if the model has it.
template <class Options>
Schema<Options> with_weights(Schema<Options> schema) {
  if constexpr (HasLora<Options>) {
    std::move(schema)
        .field("lora", &Options::lora, "Train low-rank adapters and freeze the weights.")
        .hint_for({"peft", "peft_config", "lora_config"}, "true>{rank: 8}|{}");
  }
  return std::move(schema)  // NOLINT(bugprone-use-after-move): field() adds in place
      .field("weights", &Options::weights,
             "A Hugging Face folder to start from: its sizes and its weights.")
      .on_resume(Change::kFree)
      .hint_for({"model_name_or_path", "pretrained_model_name_or_path", "base_model"});
}

/// Registers a model as Register<T> does, and its family. T provides, in addition to a component,
///   static bool reads(const std::string& model_type);
///   static Options from_config(HfConfig&);       collects problems in the config
///   static void to_config(const Options&, const WeightShapes&, nlohmann::json&);
///   static HfNames names(const Options&);
///   static constexpr bool kGenerates;
/// and optionally, for a written config that names classes of these files in `auto_map`,
///   static PythonFiles python_files(const nlohmann::json& config);
template <class T>
class RegisterPretrained : Registration {
 public:
  RegisterPretrained() : Registration(&enter), family_(kTable) {}

 private:
  using Options = typename decltype(T::schema())::Options;

  static void enter(Registry& registry) {
    registry.of<Model>().add(detail::info_of<T>(), &prepare);
  }

  static Options read_options(const Node& options) {
    Diagnostics problems;
    const Registry none;
    Reading reading{problems, none};
    Options out = T::schema().read(options, reading);
    problems.check();
    return out;
  }

  static Ref<Model> prepare(const Node& node, Reading& reading) {
    const auto schema = T::schema();
    const size_t before = reading.problems.size();
    Node given = detail::without_type(node);
    // `type: auto` cannot resolve deprecated names, because several models may have had them.
    DeprecatedNames(schema.info(), reading.registry).replace(given, reading.problems);
    Options options = schema.read(given, reading);
    if (reading.problems.size() != before) return {};
    const std::string folder = options.weights.text;
    if (!folder.empty()) {
      const Node& weights = given.find("weights")->node;
      std::optional<HfConfig> config = config_for(weights, folder, kTable, reading);
      if (!config) return {};
      const Options theirs = T::from_config(*config);
      report_config(*config, weights, reading);
      if (reading.problems.size() != before) return {};
      given = with_folder_options(given, schema.write(theirs), schema.write(options, &given),
                                  schema.info(), reading);
      if (reading.problems.size() == before) options = schema.read(given, reading);
      if (reading.problems.size() != before) return {};
    }
    Node section{Node::Map{}, given.where};
    if constexpr (HasLora<Options>) {
      static const Node kNothing{Node::Map{}, {}};
      const Node::Entry* lora = given.find("lora");
      if (lora) section = {lora->node.value, lora->where};
      options.lora =
          with_adapter(options.lora, T::names(options), lora ? lora->node : kNothing, reading);
      if (reading.problems.size() != before) return {};
    }
    return {T::kName, detail::with_type(T::kName, schema.write(options, &given), node),
            [options, section](const ModelContext& context) {
              return make(options, section, context);
            }};
  }

  static std::unique_ptr<Model> make(const Options& options, const Node& section,
                                     const ModelContext& context) {
    auto model = std::make_unique<T>(options, context);
    const HfNames names = T::names(options);
    if (!options.weights.text.empty()) {
      load_hf_weights(*model, options.weights.text, names, T::kName);
    }
    if constexpr (HasLora<Options>) {
      if (options.lora.rank > 0) {
        add_lora(*model, options.lora, {names, T::kGenerates, section});
      }
    }
    return model;
  }

  static void write_config(const Node& options, const WeightShapes& shapes,
                           nlohmann::json& config) {
    T::to_config(read_options(options), shapes, config);
  }
  static HfNames names_of(const Node& options) { return T::names(read_options(options)); }
  static std::vector<FieldInfo> options_of() { return T::schema().info(); }
  static PythonFiles python_files_of([[maybe_unused]] const nlohmann::json& config) {
    if constexpr (requires { T::python_files(config); }) return T::python_files(config);
    return {};
  }

  static constexpr HfFamily::Table kTable = {T::kName,         &T::reads,  &prepare,
                                             &write_config,    &names_of,  T::kGenerates,
                                             &python_files_of, &options_of};
  HfFamily family_;
};

}  // namespace accel
