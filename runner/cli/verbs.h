// What each verb of the command line does. All throw what ends them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace accel {

/// A recipe file and the overrides behind it on the command line.
struct RecipeArguments {
  std::string path;
  std::vector<std::string> overrides;
  int first_override = 0;            ///< position of the first one on the command line
  std::vector<std::string> allowed;  ///< keys whose change a resume accepts
  bool smoke = false;                ///< lay the recipe's `smoke` section over it
};

ExitCode run_verb(const RecipeArguments& arguments);
/// `arguments.path` is a run folder.
ExitCode resume_verb(const RecipeArguments& arguments);
/// Runs each recipe small, twice: straight, and stopped half-way and resumed; the results must be
/// the same to the last bit. Leaves nothing behind.
ExitCode smoke_verb(const std::vector<std::string>& recipes);

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

/// kOther when they differ.
ExitCode checkpoint_diff_verb(const std::string& first, const std::string& second);

ExitCode validate_verb(const RecipeArguments& arguments);
ExitCode show_verb(const RecipeArguments& arguments);
/// Tells every layer that set `key`.
ExitCode why_verb(const RecipeArguments& arguments, const std::string& key);

/// `kind` empty: all kinds. `names`: one name per line and nothing else.
ExitCode list_verb(const std::string& kind, bool names);
ExitCode explain_verb(const std::string& kind, const std::string& name);
ExitCode schema_verb();
/// Writes the generated reference pages into `folder`.
ExitCode reference_verb(const std::string& folder);

/// Writes a recipe for the data at `data` (empty: a built-in dataset) to `target`.
ExitCode new_verb(const std::string& target, const std::string& data);
/// Copies a built-in recipe: `builtin:NAME`.
ExitCode copy_verb(const std::string& source, const std::string& target);

}  // namespace accel
