// checkpoint list, inspect, verify, convert, merge and diff.
#include <iostream>

#include "core/log.h"
#include "runner/checkpoint/convert.h"
#include "runner/cli/checkpoint_path.h"
#include "runner/cli/checkpoint_text.h"
#include "runner/cli/verbs.h"

namespace accel {
namespace {

const LoadOptions kToLookAt = {.numbered = true};

constexpr std::pair<const char*, WeightLayout> kLayouts[] = {
    {"safetensors", WeightLayout::kSafetensors},
    {"bin", WeightLayout::kTorch},
    {"accelerate", WeightLayout::kAccelerate},
    {"dcp", WeightLayout::kDistributed}};

WeightLayout layout_named(const std::string& name) {
  for (const auto& [known, layout] : kLayouts) {
    if (name == known) return layout;
  }
  throw std::invalid_argument("no layout '" + name + "'");  // the parser has checked it
}

uint64_t shard_bytes_for(const std::string& text, WeightLayout layout) {
  if (layout != WeightLayout::kSafetensors && layout != WeightLayout::kTorch) {
    throw Error(ExitCode::kRecipe, "'--max-shard-size' is for weights alone",
                "convert with '--to safetensors' or '--to bin', or leave it out");
  }
  return shard_bytes(text);
}

}  // namespace

ExitCode checkpoint_list_verb(const std::string& run) {
  if (!is_run(run)) {
    throw Error(ExitCode::kRecipe, "'" + run + "' is no run folder: it has no 'checkpoints'",
                "give the folder that 'run' printed, such as runs/NAME");
  }
  DiskFiles files;
  std::cout << list_text(CheckpointStore(files, run));
  return ExitCode::kDone;
}

ExitCode checkpoint_inspect_verb(const std::string& path) {
  DiskFiles files;
  const std::string folder = checkpoint_at(files, path);
  const TrainState state = CheckpointStore(files, {}).load(folder, kToLookAt);
  std::cout << folder << "\n" << inspect_text(state, files.list(folder));
  return ExitCode::kDone;
}

ExitCode checkpoint_verify_verb(const std::string& path) {
  DiskFiles files;
  const CheckpointStore store(files, path);
  std::vector<std::string> folders;
  if (is_run(path)) {
    for (const CheckpointEntry& entry : store.list()) folders.push_back(entry.path);
  } else {
    folders.push_back(checkpoint_at(files, path));
  }
  ExitCode code = folders.empty() ? ExitCode::kCheckpoint : ExitCode::kDone;
  if (folders.empty()) std::cout << "'" << path << "' has no checkpoints\n";
  for (const std::string& folder : folders) {
    try {
      store.verify(folder);
      std::cout << folder << ": whole\n";
    } catch (const CheckpointError& error) {
      std::cout << error.what() << '\n';
      code = ExitCode::kCheckpoint;
    }
  }
  return code;
}

std::vector<std::string> convert_layouts() {
  std::vector<std::string> names;
  for (const auto& [name, layout] : kLayouts) names.emplace_back(name);
  return names;
}

ExitCode checkpoint_convert_verb(const ConvertArguments& arguments) {
  DiskFiles files;
  ConvertOptions options;
  options.to = layout_named(arguments.to);
  if (!arguments.max_shard_size.empty()) {
    options.max_shard_bytes = shard_bytes_for(arguments.max_shard_size, options.to);
  }
  const std::string target = new_folder(arguments.target);
  const std::string source = checkpoint_at(files, arguments.source);
  const auto notes = convert_checkpoint(files, source, target, options);
  for (const std::string& note : notes) warn(note);
  std::cout << arguments.target << '\n' << listing_text(files.list(target));
  return ExitCode::kDone;
}

ExitCode checkpoint_diff_verb(const std::string& first, const std::string& second) {
  DiskFiles files;
  const CheckpointStore store(files, {});
  const auto found = differences(store.load(checkpoint_at(files, first), kToLookAt),
                                 store.load(checkpoint_at(files, second), kToLookAt));
  for (const std::string& line : found) std::cout << line << '\n';
  if (found.empty()) std::cout << "equal to the last bit\n";
  return found.empty() ? ExitCode::kDone : ExitCode::kOther;
}

}  // namespace accel
