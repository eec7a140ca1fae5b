// checkpoint list, inspect, verify, convert, merge and diff.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>

#include "checkpoint/convert.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"

namespace accel {
namespace {

struct ConvertArguments {
  std::string source;
  std::string target;
  std::string to = "safetensors";  ///< one of convert_layouts()
  std::string max_shard_size;      ///< "5 GB"; empty: one file
};

const LoadOptions kInspect = {.numbered = true};

constexpr auto kCheckpointHelp = "a checkpoint, or a run folder for its newest";

constexpr std::pair<const char*, WeightLayout> kLayouts[] = {
    {"safetensors", WeightLayout::kSafetensors},
    {"bin", WeightLayout::kTorch},
    {"accelerate", WeightLayout::kAccelerate},
    {"dcp", WeightLayout::kDistributed}};

/// `name` is one of convert_layouts(), which the parser has checked.
WeightLayout layout_named(const std::string& name) {
  return std::find_if(std::begin(kLayouts), std::end(kLayouts),
                      [&](const auto& layout) { return layout.first == name; })
      ->second;
}

uint64_t shard_bytes_for(const std::string& value, WeightLayout layout) {
  if (layout != WeightLayout::kSafetensors && layout != WeightLayout::kTorch) {
    throw Error(ExitCode::kRecipe, "'--max-shard-size' splits only weights",
                "convert with '--to safetensors' or '--to bin', or leave it out");
  }
  return shard_bytes(value);
}

ExitCode checkpoint_list_verb(const std::string& run) {
  if (!is_run(run)) {
    throw Error(ExitCode::kRecipe, text("'{}' is not a run folder: it has no 'checkpoints'", run),
                "give the folder that 'run' printed, such as runs/NAME");
  }
  DiskFiles files;
  std::cout << list_text(CheckpointStore(files, run));
  return ExitCode::kDone;
}

ExitCode checkpoint_inspect_verb(const std::string& path) {
  DiskFiles files;
  const std::string folder = checkpoint_at(files, path);
  const TrainState state = CheckpointStore(files, {}).load(folder, kInspect);
  std::cout << folder << "\n" << inspect_text(state, checkpoint_files(files, folder));
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
  const auto found = differences(store.load(checkpoint_at(files, first), kInspect),
                                 store.load(checkpoint_at(files, second), kInspect));
  for (const std::string& line : found) std::cout << line << '\n';
  if (found.empty()) std::cout << "bit-identical\n";
  return found.empty() ? ExitCode::kDone : ExitCode::kOther;
}

void add_convert_verbs(VerbTable& verbs, CLI::App& group) {
  const auto to = std::make_shared<ConvertArguments>();
  const auto add = [&](const char* name, const char* help) -> CLI::App& {
    CLI::App& verb = verbs.add(group, name, help,
                               verbs.with_torch([to] { return checkpoint_convert_verb(*to); }));
    verb.add_option("source", to->source, std::string(kCheckpointHelp) + ", or a model folder")
        ->required();
    verb.add_option("target", to->target, "a folder that must not exist yet")->required();
    return verb;
  };
  CLI::App& convert = add("convert", "write a checkpoint or model in another layout");
  convert
      .add_option("--to", to->to,
                  "safetensors or bin: only the weights; accelerate: the files of save_state(); "
                  "dcp: FSDP's sharded state dict")
      ->check(CLI::IsMember(convert_layouts()))
      ->required();
  convert.add_option("--max-shard-size", to->max_shard_size,
                     "split the weights into files of at most this size, such as '5 GB'");
  CLI::App& merge = add("merge", "merge the shards of a model into one file");
  merge.add_option("--to", to->to, "safetensors (the default) or bin")
      ->check(CLI::IsMember({"safetensors", "bin"}));
}

}  // namespace

void add_checkpoint_verbs(VerbTable& verbs) {
  struct CheckpointArguments {
    std::string source, other;
  };
  const auto to = std::make_shared<CheckpointArguments>();
  CLI::App& group =
      verbs.add_group("checkpoint", "list, inspect, verify, convert and compare checkpoints");
  const auto add = [&](const char* name, const char* help, VerbTable::Run run) -> CLI::App& {
    return verbs.add(group, name, help, verbs.with_torch(std::move(run)));
  };
  add("list", "list the checkpoints of a run and verify them",
      [to] { return checkpoint_list_verb(to->source); })
      .add_option("run", to->source, "a run folder")
      ->required();
  add_convert_verbs(verbs, group);
  add("inspect", "print the contents of a checkpoint",
      [to] { return checkpoint_inspect_verb(to->source); })
      .add_option("path", to->source, kCheckpointHelp)
      ->required();
  add("verify", "compare every file with its checksum",
      [to] { return checkpoint_verify_verb(to->source); })
      .add_option("path", to->source, "a checkpoint, or a run folder for all its checkpoints")
      ->required();
  CLI::App& diff = add("diff", "compare two checkpoints",
                       [to] { return checkpoint_diff_verb(to->source, to->other); });
  diff.add_option("first", to->source, kCheckpointHelp)->required();
  diff.add_option("second", to->other, kCheckpointHelp)->required();
}

}  // namespace accel
