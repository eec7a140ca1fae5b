// Models that Hugging Face folders can be read into and written from: `weights: DIR` of a model,
// and `type: auto`, which takes the type too from the folder.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/model.h"
#include "core/registry.h"
#include "models/lora.h"
#include "runner/formats/hf_config.h"
#include "runner/formats/hf_weights.h"

namespace accel {

/// The weights of a model by name, for sizes that its recipe left to the data.
using WeightShapes = std::map<std::string, Shape>;

/// One model's two-way map to the folders of transformers, its options left as a tree.
class HfFamily {
 public:
  struct Table {
    const char* component;  ///< "gpt"
    /// Whether the folders of this `model_type` are for it.
    bool (*reads)(const std::string& model_type);
    Ref<Model> (*prepare)(const Node&, Reading&);
    /// Writes the options of a resolved model into `config`, over what is there.
    void (*write_config)(const Node& options, const WeightShapes& shapes, nlohmann::json& config);
    HfNames (*names)(const Node& options);
    bool generates;  ///< a language model, which has a generation_config.json
    std::vector<FieldInfo> (*options)();
  };

  explicit HfFamily(const Table& table) : table_(table), next_(chain_) { chain_ = this; }

  /// Null when no family reads it, or has it.
  static const Table* of_model_type(const std::string& model_type);
  static const Table* of_component(const std::string& component);
  /// Of all families, for messages.
  static std::vector<std::string> components();
  /// The options that some family has, `weights` aside, by name: where families declare one
  /// differently, what its value may be in any of them. No defaults: those are the folder's.
  static std::vector<FieldInfo> options();

 private:
  Table table_;
  const HfFamily* next_;
  static constinit inline const HfFamily* chain_ __attribute__((visibility("hidden"))) = nullptr;
};

/// The options that `weights` gives a model: `given` with those of the folder added. Reports to
/// `reading` options that are not the folder's and must be, which `fields` tells, and returns null.
/// `folder` is the folder's options as a tree; those that are `auto` there are left to the recipe.
Node with_folder_options(const Node& given, const Node& folder, const Node& own,
                         const std::vector<FieldInfo>& fields, Reading& reading);

/// The config of the folder at `weights`. Reports to `reading` at that place and returns null when
/// it cannot be read or is of a type that `reads` does not know.
std::optional<HfConfig> config_for(const Node& weights, const std::string& folder,
                                   const HfFamily::Table& family, Reading& reading);
void report_config(const HfConfig& config, const Node& weights, Reading& reading);

/// Classes that a config's `id2label` names; 2 where it has none, as transformers has it.
int64_t label_count(const HfConfig& config);
/// Names for so many classes, unless the config names as many.
void write_labels(int64_t classes, nlohmann::json& config);

/// Reads the folder's weights into the model, in place and into the types it has. Throws DataError
/// for weights that are not the model's.
void load_hf_weights(Model& model, const std::string& folder, const HfNames& names,
                     const std::string& name);

/// A checksum of the weights, or of the file, that a prepared component or the models among its
/// options start from; "" when there are none. Throws DataError.
std::string weights_fingerprint(const Node& resolved);

/// Options of a model that can be given an adapter.
template <class Options>
concept HasLora = requires(Options options) {
  {options.lora};
};

/// Declares `weights` among a model's options, which have it as a FilePath, and `lora` where they
/// have one.
template <class Options>
Schema<Options> with_weights(Schema<Options> schema) {
  if constexpr (HasLora<Options>) {
    std::move(schema).field("lora", &Options::lora,
                            "Train small matrices beside the weights, which stay as they are.");
  }
  return std::move(schema)
      .field("weights", &Options::weights,
             "A Hugging Face folder to start from: its sizes and its weights.")
      .on_resume(Change::kFree);
}

/// Enters a model as Register<T> does, and as a family. Beside what that wants T has
///   static bool reads(const std::string& model_type);
///   static Options from_config(HfConfig&);       problems are left in the config
///   static void to_config(const Options&, const WeightShapes&, nlohmann::json&);
///   static HfNames names(const Options&);
///   static constexpr bool kGenerates;
template <class T>
class RegisterPretrained : Registration {
 public:
  RegisterPretrained() : Registration(&enter), family_(kTable) {}

 private:
  using Options = typename decltype(T::schema())::Options;

  static void enter(Registry& registry) {
    registry.of<Model>().add({T::kName, T::kSummary, T::schema().info()}, &prepare);
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

  static constexpr HfFamily::Table kTable = {T::kName,  &T::reads,     &prepare,   &write_config,
                                             &names_of, T::kGenerates, &options_of};
  HfFamily family_;
};

}  // namespace accel
