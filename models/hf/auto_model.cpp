// `type: auto`: the model type of a Hugging Face folder.
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_family.h"
#include "models/hf/hf_options.h"

namespace accel {
namespace {

struct AutoModelOptions {
  FilePath weights;

  static Schema<AutoModelOptions> schema() {
    return with_weights(Schema<AutoModelOptions>()).required();
  }
};

constexpr auto kAutoName = "auto";
constexpr auto kAutoSummary =
    "The model that the Hugging Face folder `weights` is of, with its options.";

/// Options beside `weights` belong to the model type of the folder.
Ref<Model> prepare_auto(const Node& node, Reading& reading) {
  const size_t before = reading.problems.size();
  const Node::Entry* weights = node.map() ? node.find("weights") : nullptr;
  Node known = detail::without_type(node);
  std::erase_if(*known.map(), [](const Node::Entry& entry) { return entry.key != "weights"; });
  const AutoModelOptions options = AutoModelOptions::schema().read(known, reading);
  if (reading.problems.size() != before) return {};
  try {
    const HfConfig config(options.weights.text);
    if (const HfFamily::Table* family = HfFamily::of_model_type(config.model_type())) {
      return family->prepare(node, reading);
    }
    reading.problems.error(
        weights->node.where,
        accel::text("'{}' has the model type '{}', which is not supported", config.path(),
                    config.model_type()),
        accel::text("supported models are {}; for others tools/export_model.py writes the "
                    "model, by torch.export in Python, as a file for 'type: exported'",
                    quoted_list(HfFamily::components())));
  } catch (const Error& error) {
    reading.problems.error(weights->node.where, error.what(), error.hint());
  }
  return {};
}

class RegisterAuto : Registration {
 public:
  RegisterAuto() : Registration(&enter) {}

 private:
  static void enter(Registry& registry) {
    std::vector<FieldInfo> fields = AutoModelOptions::schema().info();
    const std::vector<FieldInfo> theirs = HfFamily::options();
    fields.insert(fields.end(), theirs.begin(), theirs.end());
    registry.of<Model>().add({kAutoName, kAutoSummary, std::move(fields)}, &prepare_auto);
  }
};

const RegisterAuto auto_model;

}  // namespace
}  // namespace accel
