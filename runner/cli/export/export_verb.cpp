// export: a checkpoint's model as a folder for transformers or as a GGUF file.
#include "runner/cli/export/export_verb.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/accelerate_folder.h"
#include "checkpoint/convert.h"
#include "checkpoint/reader.h"
#include "checkpoint/stored_layout.h"
#include "checkpoint/tensors.h"
#include "core/base/activity.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"
#include "runner/cli/export/export_folder.h"
#include "runner/cli/export/export_gguf.h"
#include "runner/cli/export/export_source.h"
#include "runner/cli/export/export_weights.h"
#include "runner/placement/weight_placement.h"
#include "text/pretrained/tokenizer_check.h"
#include "text/pretrained/tokenizer_folder.h"
#include "train/loop/run_state.h"

namespace accel {
namespace {

constexpr auto kDefaultShard = "5 GB";
constexpr auto kDefaultGgufType = "f16";
constexpr auto kGguf = "gguf";
constexpr auto kTransformers = "transformers";

bool is_gguf(const ExportArguments& arguments) {
  if (!arguments.format.empty()) return arguments.format == kGguf;
  return std::filesystem::path(arguments.target).extension() == ".gguf";
}

/// Rejects options without effect on the format, and models that it cannot have.
void check_format(const ExportArguments& arguments, const ExportSource& source) {
  if (!is_gguf(arguments)) {
    if (arguments.gguf_type.empty()) return;
    throw Error(ExitCode::kRecipe, "'--gguf-type' has no effect on a folder for transformers",
                text("leave it out, or add '--format {}'", kGguf));
  }
  if (!arguments.max_shard_size.empty()) {
    throw Error(ExitCode::kRecipe, "'--max-shard-size' splits a folder, and a GGUF file is one",
                "leave it out");
  }
  if (!source.family || !source.family->gguf) {
    throw Error(ExitCode::kRecipe,
                text("GGUF files are supported for models of type {} only",
                     quoted_list(HfFamily::gguf_components())),
                text("export a folder: '--format {}'", kTransformers));
  }
  if (source.lora && !arguments.merge) {
    throw Error(ExitCode::kRecipe, "a GGUF file has a whole model, and this one has an adapter",
                "add '--merge'");
  }
}

/// Rejects options without effect.
void check_export(const ExportArguments& arguments, const ExportSource& source) {
  if (arguments.merge && !source.lora) {
    throw Error(ExitCode::kRecipe, "'--merge' merges an adapter, and this model has none",
                "leave it out");
  }
  if (arguments.merge && !source.family) {
    throw Error(ExitCode::kRecipe, "transformers has no model for an exported program",
                "leave '--merge' out: PEFT loads the adapter into the Python module and merges it");
  }
  if (arguments.merge && source.has_trained_only) {
    throw Error(ExitCode::kRecipe,
                "'--merge' needs the frozen weights, and checkpoints of a run with "
                "'accelerator.max_memory' have the trained ones only",
                "leave it out, and merge the adapter with PEFT");
  }
  if (!arguments.max_shard_size.empty() && source.lora && !arguments.merge) {
    throw Error(ExitCode::kRecipe,
                "'--max-shard-size' splits a model's weights, and an adapter is one file",
                "leave it out, or add '--merge'");
  }
}

bool has_python_files(const std::vector<DirEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const DirEntry& entry) { return entry.name.ends_with(".py"); });
}

/// Warns of a tokenizer that transformers builds otherwise than the run, by the model's config.
void check_tokenizer(const ExportSource& source, const std::string& target) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(target + "/tokenizer.json", error) && !has_class_vocabulary(target)) return;
  for (const std::string& path : source.tokenizers) {
    const bool is_model = fs::path(path).extension() == ".model";
    if (is_model || !fs::exists(path, error)) continue;
    const std::string difference = tokenizer_difference(path, target);
    if (!difference.empty()) warn(difference);
  }
}

void export_folder(const ExportArguments& arguments, const ExportSource& source,
                   const std::vector<NamedArray>& weights) {
  DiskFiles files;
  const std::string target = new_folder(arguments.target);
  const uint64_t max_shard_bytes =
      shard_bytes(arguments.max_shard_size.empty() ? kDefaultShard : arguments.max_shard_size);
  publish_folder(files, target, [&](const std::string& staged) {
    const Activity shown("writing " + target);
    if (source.lora && !arguments.merge) {
      write_adapter_export(files, staged, source, weights);
    } else {
      write_export(files, staged, source, whole_weights(weights, source), max_shard_bytes);
    }
  });
  check_tokenizer(source, target);
  const std::vector<DirEntry> written = files.list(target);
  std::cout << arguments.target << '\n' << listing_text(written);
  if (has_python_files(written)) {
    say("transformers loads it with trust_remote_code=True: the .py file has the model's code");
  }
}

void export_gguf(const ExportArguments& arguments, const ExportSource& source,
                 const std::vector<NamedArray>& weights) {
  namespace fs = std::filesystem;
  const std::string target = new_file(arguments.target);
  if (arguments.format.empty()) say("writing a GGUF file, as the name of the target says");
  const std::string type = arguments.gguf_type.empty() ? kDefaultGgufType : arguments.gguf_type;
  const GgufExport made = gguf_export(source, whole_weights(weights, source), gguf_type_named(type),
                                      fs::path(target).stem().string());
  for (const std::string& note : made.notes) warn(note);
  {
    const Activity shown("writing " + target);
    write_gguf_file(target, made.file);
  }
  const auto bytes = static_cast<int64_t>(fs::file_size(target));
  std::cout << listing_text({{arguments.target, DirEntry::Kind::kFile, bytes}});
  say(gguf_tensors_text(made.file));
}

std::array<std::pair<const char*, std::string*>, 3> placement_flags(PlacementFlags& flags) {
  return {{{"--device-map", &flags.device_map},
           {"--max-memory", &flags.max_memory},
           {"--offload", &flags.offload}}};
}

/// Placement has no effect on an export.
void refuse_placement(PlacementFlags& flags) {
  for (const auto& [name, value] : placement_flags(flags)) {
    if (value->empty()) continue;
    throw Error(
        ExitCode::kRecipe,
        text("'{}' has no effect on 'export', which has one weight in memory at a time", name),
        "leave it out");
  }
}

/// The weights that the run evaluates: with the callback `ema`, their average.
void take_averages(Files& files, const std::string& folder, const TrainState& state,
                   std::vector<NamedArray>& weights) {
  constexpr auto kSection = "callbacks/ema";
  if (!state.sections.contains(kSection)) return;
  const TrainState whole = read_checkpoint(files, folder, {.without_optimizer = true});
  const std::map<std::string, at::Tensor>& averages = whole.sections.at(kSection).tensors;
  for (NamedArray& item : weights) {
    const auto average = averages.find(item.name);
    if (average != averages.end()) item.array = array_of(average->second, item.name);
  }
  say("the weights are the average of 'ema', which the run evaluates");
}

}  // namespace

void export_model(const ExportArguments& arguments) {
  DiskFiles files;
  if (!arguments.max_shard_size.empty()) shard_bytes(arguments.max_shard_size);
  is_gguf(arguments) ? new_file(arguments.target) : new_folder(arguments.target);
  const std::string folder = checkpoint_at(files, arguments.source);
  verify_checkpoint(files, folder);
  const TrainState state = inspect_checkpoint(files, folder).state;
  const ExportSource source = export_source(state);
  check_export(arguments, source);
  check_format(arguments, source);
  std::vector<NamedArray> weights = read_weights(files, folder).tensors;
  if (state.layout) weights = own_arrays(*state.layout, weights);
  take_averages(files, folder, state, weights);
  if (source.quantization.is_on() && (arguments.merge || !source.lora)) {
    say("the quantized weights are written dequantized");
  }
  is_gguf(arguments) ? export_gguf(arguments, source, weights)
                     : export_folder(arguments, source, weights);
}

void add_export_verb(VerbTable& verbs) {
  const auto to = std::make_shared<ExportArguments>();
  const auto placement = std::make_shared<PlacementFlags>();
  CLI::App& verb = verbs.add(
      "export", "write the model of a checkpoint as a folder for transformers, or for llama.cpp",
      verbs.with_torch([to, placement] {
        refuse_placement(*placement);
        export_model(*to);
        return ExitCode::kDone;
      }));
  verb.add_option("source", to->source, "a checkpoint, or a run folder for its newest")->required();
  verb.add_option("--to", to->target, "a folder or a .gguf file that must not exist yet")
      ->required();
  verb.add_option(
          "--format", to->format,
          "transformers: a folder; gguf: a file for llama.cpp, of GPT-2 and Llama's families. "
          "Default: gguf where '--to' ends in .gguf")
      ->check(CLI::IsMember({kTransformers, kGguf}));
  verb.add_option("--gguf-type", to->gguf_type,
                  "type of the matrices in a GGUF file: f16; bf16, with float32's range and fewer "
                  "digits; q8_0, half the bytes; f32, twice. Default: f16")
      ->check(CLI::IsMember(gguf_type_names()));
  verb.add_option("--max-shard-size", to->max_shard_size,
                  "split the weights into files of at most this size; default: '5 GB'");
  verb.add_flag("--merge", to->merge,
                "merge a LoRA adapter into the weights; else only the adapter is written");
  for (const auto& [name, value] : placement_flags(*placement)) {
    verb.add_option(name, *value)->group("");  // refused, and in no help
  }
}

}  // namespace accel
