// What each verb of the command line does. All throw what ends them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/node.h"

namespace accel {

class RankSession;

/// A recipe file, and what the command line lays under and over it.
struct RecipeArguments {
  std::string path;
  std::string config;       ///< a file that says where to run; empty: none
  bool on_cpu = false;      ///< a config for GPUs says how many ranks there are on the CPU
  std::vector<Node> flags;  ///< layers over the recipe and under the overrides
  std::vector<std::string> overrides;
  int first_override = 0;             ///< position of the first one on the command line
  std::vector<std::string> allowed;   ///< keys whose change a resume accepts
  bool smoke = false;                 ///< lay the recipe's `smoke` section over it
  std::string run_dir;                ///< empty: runs/<name>
  bool json = false;                  ///< errors of ranks are told as JSON
  std::optional<int64_t> stop_after;  ///< save and stop after so many steps
  /// Texts that stand for what is on disk, by canonical path.
  std::map<std::string, std::string> texts;
};

/// Start the ranks that the recipe wants and return how they ended; nothing where this process is
/// to do the work itself.
std::optional<ExitCode> launch_run(const RecipeArguments& arguments,
                                   const std::vector<std::string>& argv);
std::optional<ExitCode> launch_resume(const RecipeArguments& arguments,
                                      const std::vector<std::string>& argv);

ExitCode run_verb(const RecipeArguments& arguments, RankSession& session);
/// What `launch` runs: `words` are those behind it, of which the first has the position `first`.
/// Null: only help was asked for, and is printed.
std::optional<RecipeArguments> launch_arguments(const std::vector<std::string>& words, int first);
/// `arguments.path` is a run folder.
ExitCode resume_verb(const RecipeArguments& arguments, RankSession& session);
/// Starts `processes` ranks for test_verb(), where there are to be several; `json` as above.
std::optional<ExitCode> launch_test(int64_t processes, bool json,
                                    const std::vector<std::string>& argv);
/// Tests on this machine what training with several processes needs. Throws what does not hold.
ExitCode test_verb(RankSession& session);

/// Runs each recipe among `words` of the command line `argv`, with the overrides that follow them
/// and the config of `arguments`, small and twice: straight, and stopped half-way and resumed; the
/// results must be the same to the last bit. Checks all of them before the first runs. Leaves
/// nothing behind.
ExitCode smoke_verb(RecipeArguments arguments, std::vector<std::string> words,
                    const std::vector<std::string>& argv);

/// Runs 2 x `steps` steps straight, and the same killed after the checkpoint in the middle and
/// resumed. Throws Error naming the first quantity that differs. Leaves nothing behind.
ExitCode verify_resume_verb(const RecipeArguments& arguments, int64_t steps);
/// Tells in what two run folders differ. kOther when their numbers do.
ExitCode diff_verb(const std::string& first, const std::string& second);

/// `run` is a run folder; elsewhere a path is one too, for its newest checkpoint, or a checkpoint.
ExitCode checkpoint_list_verb(const std::string& run);
ExitCode checkpoint_inspect_verb(const std::string& path);
/// kCheckpoint when one is damaged. All of a run folder.
ExitCode checkpoint_verify_verb(const std::string& path);
struct ConvertArguments {
  std::string source;
  std::string target;
  std::string to;              ///< one of convert_layouts()
  std::string max_shard_size;  ///< "5 GB"; empty: one file
};
/// Names that `to` may have.
std::vector<std::string> convert_layouts();
ExitCode checkpoint_convert_verb(const ConvertArguments& arguments);

struct ExportArguments {
  std::string source;          ///< a run folder or a checkpoint
  std::string target;          ///< a folder that is not there yet
  std::string max_shard_size;  ///< "5 GB"; empty: that
  bool merge = false;          ///< a low-rank adapter into the weights it is for
};
/// Writes the model of a checkpoint as a folder that transformers reads.
ExitCode export_verb(const ExportArguments& arguments);

/// kOther when they differ.
ExitCode checkpoint_diff_verb(const std::string& first, const std::string& second);

/// Writes a report on one run into its folder, or to `output` on one or several; says where.
ExitCode report_verb(const std::vector<std::string>& runs, const std::string& output);
/// Shows a run on the terminal until 'q'; `once`, or without a terminal, a single picture.
ExitCode top_verb(const std::string& run, bool once);

/// Gives orders to the process that trains in `run`, one after the other, and says what it answers.
/// Throws Error when none trains there, it refuses, or does not answer within `wait` seconds.
ExitCode ctl_verb(const std::string& run, const std::vector<std::string>& orders, double wait);

ExitCode validate_verb(const RecipeArguments& arguments);
ExitCode show_verb(const RecipeArguments& arguments);
/// Tells what a recipe takes and computes with these numbers of ranks ("1,2,8"; empty: as the
/// recipe says), and what would make it fit. kMemory when this machine cannot hold a rank.
/// With `names`, only tells the names under which the run logs numbers.
ExitCode plan_verb(const RecipeArguments& arguments, const std::string& ranks, bool names);
/// Tells what the weights in a Hugging Face folder take in each of these types; none: in all of
/// estimate_types(). Throws DataError.
ExitCode estimate_verb(const std::string& folder, const std::vector<std::string>& types);
std::vector<std::string> estimate_types();
/// Tells every layer that set `key`.
ExitCode why_verb(const RecipeArguments& arguments, const std::string& key);

/// `plugins`: files whose components are told of too. `kind` empty: all kinds. `names`: one name
/// per line and nothing else.
ExitCode list_verb(const std::vector<std::string>& plugins, const std::string& kind, bool names);
ExitCode explain_verb(const std::vector<std::string>& plugins, const std::string& kind,
                      const std::string& name);
/// Of recipes, or of sweeps.
ExitCode schema_verb(const std::vector<std::string>& plugins, bool of_sweeps);
/// Serves an editor on standard input and output until it ends the server.
ExitCode editor_verb();
/// Writes the generated reference pages into `folder`.
ExitCode reference_verb(const std::string& folder);

/// Asks where to run and writes it as Accelerate's config. `file` empty: Accelerate's own place.
ExitCode config_verb(const std::string& file);
/// The same without questions: one process. Fails when the file is there.
ExitCode config_default_verb(const std::string& file, const std::string& mixed_precision);
/// Gives an old config the keys of today.
ExitCode config_update_verb(const std::string& file);
/// Prints what a report of a problem should tell of this machine.
ExitCode env_verb(const std::string& file);

/// Writes a recipe for the data at `data` (empty: a built-in dataset) to `target`.
ExitCode new_verb(const std::string& target, const std::string& data);
struct DownloadArguments {
  std::string what;                ///< a data set, or `hf:[datasets/]org/name[@revision]`
  std::string target;              ///< a folder; empty: the hub's cache, or the user's
  std::vector<std::string> files;  ///< patterns, of a repository of the hub
};
ExitCode download_verb(const DownloadArguments& arguments);

struct ImportArguments {
  std::string source;  ///< the config of another trainer
  std::string target;  ///< the recipe to write; empty: it is printed
  std::string peer;    ///< whose config it is; empty: as its keys say
};
/// Writes the recipe, and tells what became of every key.
ExitCode import_verb(const ImportArguments& arguments);

/// Copies a built-in recipe: `builtin:NAME`.
ExitCode copy_verb(const std::string& source, const std::string& target);

}  // namespace accel
