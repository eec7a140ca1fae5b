// The command line: a table of verbs, each registered by the file that implements it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "runner/cli/display.h"

namespace CLI {
class App;
}

namespace accel {

class RankSession;
struct RecipeArguments;

/// A verb that trains. `launch` runs first and without libtorch: it starts the ranks and returns
/// their exit code, or nothing in a process that trains itself, where `run` follows.
struct TrainingVerb {
  std::function<std::optional<ExitCode>()> launch;
  std::function<ExitCode(RankSession&)> run;
};

/// The subcommands of the program, their shared options and the parser.
class VerbTable {
 public:
  using Run = std::function<ExitCode()>;

  explicit VerbTable(std::vector<std::string> argv);
  ~VerbTable();
  VerbTable(const VerbTable&) = delete;
  VerbTable& operator=(const VerbTable&) = delete;

  /// Adds a verb, whose options the caller adds to the result. Without a group it is the program's.
  CLI::App& add(const char* name, const char* help, Run run);
  CLI::App& add(CLI::App& group, const char* name, const char* help, Run run);
  /// A subcommand with subcommands only.
  CLI::App& add_group(const char* name, const char* help);

  /// `run`, with libtorch loaded.
  Run with_torch(Run run) const;
  /// The stages of a verb that trains. No signal is lost while libtorch is loaded.
  Run training(TrainingVerb verb) const;

  /// Adds a recipe and its overrides; `to` must outlive the table.
  void add_recipe(CLI::App& verb, RecipeArguments& to, const char* help);

  const CLI::App& app() const { return *app_; }
  const std::vector<std::string>& argv() const { return argv_; }
  /// The index of a word in argv: messages about an override name it.
  int position_of(const std::string& word) const;
  /// `--error-format json`; known once the command line is parsed.
  bool json() const { return error_format_ == "json"; }

  /// Parses the command line, runs the chosen verb and returns the exit code. Errors are printed on
  /// standard error.
  int run();

 private:
  int run_chosen();

  std::vector<std::string> argv_;
  std::unique_ptr<CLI::App> app_;
  std::string error_format_ = "text";
  DisplayOptions display_;
  std::vector<RecipeArguments*> recipes_;
  Run chosen_;
};

/// `--config`: the config file.
void add_config(CLI::App& verb, std::string& to,
                const char* help = "where to run: an Accelerate config, or a file as in configs/");
/// An option of one value that may be repeated.
void add_repeated(CLI::App& verb, const char* name, std::vector<std::string>& to, const char* help);

// One function for each file of verbs.
void add_run_verbs(VerbTable& verbs);
void add_sweep_verb(VerbTable& verbs);
void add_submit_verbs(VerbTable& verbs);
void add_test_verb(VerbTable& verbs);
void add_verify_verbs(VerbTable& verbs);
void add_recipe_verbs(VerbTable& verbs);
void add_plan_verb(VerbTable& verbs);
void add_estimate_verb(VerbTable& verbs);
void add_catalog_verbs(VerbTable& verbs);
void add_editor_verb(VerbTable& verbs);
void add_checkpoint_verbs(VerbTable& verbs);
void add_export_verb(VerbTable& verbs);
void add_push_verb(VerbTable& verbs);
void add_download_verb(VerbTable& verbs);
void add_import_verb(VerbTable& verbs);
void add_config_verbs(VerbTable& verbs);
void add_prepare_verb(VerbTable& verbs);
void add_tokenizer_verbs(VerbTable& verbs);
void add_plugin_verbs(VerbTable& verbs);
void add_generate_verb(VerbTable& verbs);
void add_chat_verb(VerbTable& verbs);
void add_apply_verbs(VerbTable& verbs);
void add_view_verbs(VerbTable& verbs);
void add_ctl_verb(VerbTable& verbs);
void add_track_verbs(VerbTable& verbs);
void add_completion_verb(VerbTable& verbs);

/// Runs the command line `argv`, the program's name first, and returns the exit code.
int run_cli(std::vector<std::string> argv);

}  // namespace accel
