#include "runner/cli/export/export_folder.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/convert.h"
#include "checkpoint/folder_writer.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "formats/tensors/weight_shards.h"
#include "models/lora/expert_adapters.h"
#include "models/lora/lora.h"
#include "models/lora/lora_folder.h"
#include "runner/cli/export/export_config.h"
#include "runner/cli/export/export_weights.h"
#include "runner/cli/export/image_processor_config.h"

namespace accel {
namespace {

using nlohmann::json;

/// Writes weights into one file, or into shards with an index.
void write_sources(FolderWriter& writer, const std::vector<TensorSource>& weights,
                   uint64_t max_shard_bytes) {
  constexpr WeightFormat kFormat = WeightFormat::kSafetensors;
  std::vector<WeightSize> sizes;
  for (const TensorSource& weight : weights) sizes.push_back({weight.name, weight.bytes()});
  const std::vector<WeightShard> shards = plan_weight_shards(sizes, max_shard_bytes, kFormat);
  for (const WeightShard& shard : shards) {
    std::vector<TensorSource> some;
    for (const size_t i : shard.weights) some.push_back(weights[i]);
    writer.add(shard.file, [&](const ByteSink& sink) { write_safetensors(some, sink); });
  }
  if (shards.size() > 1) {
    writer.add_text(weight_index_name(kFormat), weight_index_text(sizes, shards));
  }
}

/// The image processor of a model that classifies images, or embeds them.
void write_image_processor(FolderWriter& writer, const json& config, const ExportSource& source) {
  const std::string architecture = config["architectures"].front().get<std::string>();
  const bool is_clip = architecture == "CLIPModel";
  if (!is_clip && !architecture.ends_with("ImageClassification")) return;
  ImageProcessorConfig processor = image_processor_config(source.data);
  if (!processor.lack.empty()) return warn(processor.lack);
  if (is_clip) processor.config["image_processor_type"] = "CLIPImageProcessor";
  writer.add_text("preprocessor_config.json", processor.config.dump(2) + "\n");
}

/// Those of a layer; 0 for a model without.
int64_t num_experts_in(const Node& options) {
  const Node::Entry* moe = options.find("moe");
  const Node::Entry* number = moe ? moe->node.find("num_experts") : nullptr;
  return number && number->node.scalar() ? std::stoll(number->node.scalar()->text) : 0;
}

}  // namespace

void write_export(Files& files, const std::string& folder, const ExportSource& source,
                  const std::vector<TensorSource>& weights, uint64_t max_shard_bytes) {
  const WeightShapes shapes = shapes_of(weights);
  const Node options = untied_options(source, shapes);
  const json config = exported_config(source, options, shapes);
  FolderWriter writer(files, folder);
  writer.add_text("config.json", config.dump(2) + "\n");
  const auto copies = files_to_copy(source);
  for (const auto& [name, path] : copies) {
    writer.add(name, [&, from = path](const ByteSink& sink) { sink(map_file(from).view); });
  }
  if (copies.contains("tokenizer.json") && !copies.contains("tokenizer_config.json")) {
    // Else transformers takes the tokenizer class of the model type.
    writer.add_text("tokenizer_config.json",
                    json{{"tokenizer_class", "PreTrainedTokenizerFast"}}.dump(2) + "\n");
  }
  if (source.family->generates && !copies.contains("generation_config.json")) {
    writer.add_text("generation_config.json", exported_generation_config(config).dump(2) + "\n");
  }
  for (const auto& [name, code] : source.family->python_files(config)) writer.add_text(name, code);
  write_image_processor(writer, config, source);
  const HfNames names = source.family->names(options);
  write_sources(writer, stored_sources(weights, names), max_shard_bytes);
  files.sync_dir(folder);
}

void write_adapter_export(Files& files, const std::string& folder, const ExportSource& source,
                          const std::vector<NamedArray>& weights) {
  const HfNames names = source.family ? source.family->names(source.options) : HfNames();
  LoraOptions lora = *source.lora;
  lora.modules_to_save = {also_trained(lora, names)};
  const std::vector<NamedArray> adapter = adapter_weights(weights, lora);
  FolderWriter writer(files, folder);
  const json config = adapter_config(lora, adapter, names, source.base);
  const std::string problem =
      peft_expert_problem(lora, adapter, names, num_experts_in(source.options));
  if (!problem.empty()) {
    warn(text("PEFT with transformers 5 {}: '--merge' exports the whole model", problem));
  }
  writer.add_text(kAdapterConfig, config.dump(2) + "\n");
  writer.add_tensors(kAdapterWeights, stored_adapter(adapter, names));
  files.sync_dir(folder);
}

}  // namespace accel
