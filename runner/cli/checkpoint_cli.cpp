#include "runner/cli/checkpoint_cli.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "runner/cli/lazy_torch.h"
#include "runner/cli/verbs.h"

namespace accel {
namespace {

struct CheckpointArguments {
  std::string source, target;
  ConvertArguments convert{{}, {}, "safetensors", {}};
  ExportArguments export_to;
};

constexpr auto kCheckpointHelp = "a checkpoint, or a run folder for its newest";

/// What adds a verb to a group: its name, its help and what it does.
using AddVerb = std::function<CLI::App&(CLI::App& group, const char* name, const char* help,
                                        std::function<ExitCode()> run)>;

void add_convert_verbs(CLI::App& group, CheckpointArguments& to, const AddVerb& add_verb) {
  const auto add = [&](const char* name, const char* help) -> CLI::App& {
    CLI::App& verb =
        add_verb(group, name, help, [&to] { return checkpoint_convert_verb(to.convert); });
    verb.add_option("source", to.convert.source,
                    std::string(kCheckpointHelp) + ", or a model folder")
        ->required();
    verb.add_option("target", to.convert.target, "a folder that is not there yet")->required();
    return verb;
  };
  CLI::App& convert = add("convert", "write a checkpoint or model in another layout");
  convert
      .add_option("--to", to.convert.to,
                  "safetensors or bin: the weights alone; accelerate: what "
                  "save_state() writes; dcp: FSDP's shards")
      ->check(CLI::IsMember(convert_layouts()))
      ->required();
  convert.add_option("--max-shard-size", to.convert.max_shard_size,
                     "cut the weights into files of at most this, such as '5 GB'");
  CLI::App& merge = add("merge", "put a model's shards into one file");
  merge.add_option("--to", to.convert.to, "safetensors (the default) or bin")
      ->check(CLI::IsMember({"safetensors", "bin"}));
}

void add_group(CLI::App& app, CheckpointArguments& to, const AddVerb& add_verb) {
  CLI::App& group = *app.add_subcommand("checkpoint", "look at checkpoints");
  group.require_subcommand(1);
  add_verb(group, "list", "tell a run's checkpoints and whether they are whole",
           [&to] { return checkpoint_list_verb(to.source); })
      .add_option("run", to.source, "a run folder")
      ->required();
  add_convert_verbs(group, to, add_verb);
  add_verb(group, "inspect", "tell what a checkpoint holds",
           [&to] { return checkpoint_inspect_verb(to.source); })
      .add_option("path", to.source, kCheckpointHelp)
      ->required();
  add_verb(group, "verify", "compare every file with its checksum",
           [&to] { return checkpoint_verify_verb(to.source); })
      .add_option("path", to.source, "a checkpoint, or a run folder for all of its own")
      ->required();
  CLI::App& diff = add_verb(group, "diff", "tell in what two checkpoints differ",
                            [&to] { return checkpoint_diff_verb(to.source, to.target); });
  diff.add_option("first", to.source, kCheckpointHelp)->required();
  diff.add_option("second", to.target, kCheckpointHelp)->required();
}

void add_export(CLI::App& app, ExportArguments& to, const AddVerb& add_verb) {
  CLI::App& verb =
      add_verb(app, "export", "write a checkpoint's model as a folder for transformers",
               [&to] { return export_verb(to); });
  verb.add_option("source", to.source, kCheckpointHelp)->required();
  verb.add_option("--to", to.target, "a folder that is not there yet")->required();
  verb.add_option("--max-shard-size", to.max_shard_size,
                  "cut the weights into files of at most this; default: '5 GB'");
  verb.add_flag("--merge", to.merge,
                "put a LoRA adapter into the weights; without it the adapter alone is written");
}

}  // namespace

void add_checkpoint_verbs(CLI::App& app, const std::vector<std::string>& argv,
                          std::function<ExitCode()>& verb) {
  const auto to = std::make_shared<CheckpointArguments>();
  const AddVerb add_verb = [&](CLI::App& group, const char* name, const char* help,
                               std::function<ExitCode()> run) -> CLI::App& {
    CLI::App& added = *group.add_subcommand(name, help);
    added.callback([to, run = std::move(run), &argv, &verb] {
      verb = [to, run, &argv] {
        require_torch(argv);
        return run();
      };
    });
    return added;
  };
  add_group(app, *to, add_verb);
  add_export(app, to->export_to, add_verb);
}

}  // namespace accel
