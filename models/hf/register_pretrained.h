// Registration of models with Hugging Face folders.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/deprecated_names.h"
#include "models/decoder_head.h"
#include "models/hf/hf_family.h"
#include "models/hf/hf_options.h"
#include "models/lora/lora.h"
#include "models/lora/lora_folder.h"
#include "models/lora/pattern_check.h"
#include "models/quantized/quantize_model.h"

namespace accel {

/// Registers a model as Register<T> does, and its family. T provides, in addition to a component,
///   static bool reads(const std::string& model_type);
///   static Options from_config(HfConfig&);       collects problems in the config
///   static void to_config(const Options&, const WeightShapes&, nlohmann::json&);
///   static HfNames names(const Options&);
///   static constexpr bool kGenerates;
/// of an encoder-decoder
///   static constexpr bool kIsEncoderDecoder = true;
/// and optionally, for a written config that names classes of these files in `auto_map`,
///   static PythonFiles python_files(const nlohmann::json& config);
/// and, for a model of llama.cpp's,
///   static GgufModel gguf(const Options&, const nlohmann::json& config,
///                         const std::vector<TensorSource>& weights);  throws Error (kRecipe)
template <class T>
class RegisterPretrained : Registration {
 public:
  RegisterPretrained() : Registration(&enter), family_(kTable) {}

 private:
  using Options = typename decltype(T::schema())::Options;

  struct Sections {
    Node recipe;   ///< the model's options as given
    bool is_read;  ///< whether the folder has quantized weights
  };

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
    Sections sections{given, false};
    if (!folder.empty()) {
      const Node& weights = given.find("weights")->node;
      std::optional<HfConfig> config = config_for(weights, folder, kTable, reading);
      if (!config) return {};
      Options theirs = T::from_config(*config);
      if constexpr (HasQuantization<Options>) theirs.quantization = quantization_in(*config);
      if constexpr (HasDecoderHead<Options>) fit_folder_to_head(options, theirs);
      report_config(*config, {HasQuantization<Options>, kIsEncoderDecoder}, weights, reading);
      if (reading.problems.size() != before) return {};
      given = with_folder_options(given, schema.write(theirs), schema.write(options, &given),
                                  schema.info(), reading);
      if (reading.problems.size() == before) options = schema.read(given, reading);
      if (reading.problems.size() != before) return {};
      if constexpr (HasQuantization<Options>) sections.is_read = theirs.quantization.is_on();
    }
    if constexpr (HasLora<Options>) {
      options.lora =
          with_adapter(options.lora, T::names(options), section_of(given, "lora"), reading);
      if constexpr (HasQuantization<Options>) {
        check_quantization(options.quantization, options.lora, sections.recipe, reading);
      }
      if (reading.problems.size() != before) return {};
    }
    return {T::kName, detail::with_type(T::kName, schema.write(options, &given), node),
            [options, sections](const ModelContext& context) {
              return make(options, sections, context);
            }};
  }

  static std::unique_ptr<Model> make(const Options& options, const Sections& sections,
                                     const ModelContext& context) {
    const HfNames names = T::names(options);
    const std::string& folder = options.weights.text;
    std::unique_ptr<Model> model;
    if constexpr (HasQuantization<Options>) {
      if (options.quantization.is_on()) {
        model = build_quantized(
            options.quantization,
            {[&] { return std::make_unique<T>(options, context); }, T::kName, names, folder,
             sections.is_read, section_of(sections.recipe, "quantization")});
      }
    }
    if (!model) {
      model = std::make_unique<T>(options, context);
      if (!folder.empty()) load_hf_weights(*model, folder, names, T::kName);
    }
    if (!folder.empty()) check_label_order(folder, context.data.labels);
    if constexpr (HasLora<Options>) {
      if (options.lora.rank > 0) {
        add_lora(*model, options.lora, {names, section_of(sections.recipe, "lora")});
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

  static GgufModel gguf_of(const Node& options, const nlohmann::json& config,
                           const std::vector<TensorSource>& weights) {
    if constexpr (kHasGguf) return T::gguf(read_options(options), config, weights);
    return {};
  }
  static constexpr bool kHasGguf = requires { &T::gguf; };
  static constexpr bool kIsEncoderDecoder = requires { T::kIsEncoderDecoder; };

  static constexpr HfFamily::Table kTable = {
      T::kName,         &T::reads,   &prepare,
      &write_config,    &names_of,   T::kGenerates,
      &python_files_of, &options_of, kHasGguf ? &gguf_of : nullptr};
  HfFamily family_;
};

}  // namespace accel
