#include "runner/cli/cli.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include <CLI/CLI.hpp>

#include "core/base/build_info.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/diagnostic.h"
#include "runner/cli/error_text.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/world.h"
#include "runner/startup/lazy_torch.h"
#include "runner/startup/process_setup.h"
#include "train/loop/signals.h"

namespace accel {
namespace {

/// Verbs of other programs and their equivalents here.
constexpr std::pair<const char*, const char*> kOtherVerbs[] = {
    {"train", "run"},
    {"fit", "run"},
    {"finetune", "run"},
    {"fine-tune", "run"},
    {"start", "run"},
    {"continue", "resume"},
    {"eval", "evaluate"},
    {"infer", "predict"},
    {"inference", "predict"},
    {"check", "validate"},
    {"lint", "validate"},
    {"print", "show"},
    {"tune", "sweep"},
    {"search", "sweep"},
    {"components", "list"},
    {"describe", "explain"},
    {"init", "new"},
    {"create", "new"},
    {"fetch", "download"},
    {"copy", "cp"},
    {"watch", "top"},
    {"monitor", "top"},
    {"compare", "diff"},
    {"control", "ctl"},
    {"verify", "verify-resume"},
    {"info", "env"},
    {"doctor", "test"},
    {"training", "run"},
    {"execute", "run"},
    {"exec", "run"},
    {"sft", "run"},
    {"pretrain", "run"},
    {"restart", "resume"},
    {"evaluation", "evaluate"},
    {"score", "evaluate"},
    {"prediction", "predict"},
    {"classify", "predict"},
    {"sample", "generate"},
    {"convert", "checkpoint convert"},
    {"merge", "checkpoint merge"},
    {"inspect", "checkpoint inspect"},
    {"checkpoints", "checkpoint"},
    {"ckpt", "checkpoint"},
    {"deploy", "export"},
    {"publish", "export"},
    {"stop", "ctl"},
    {"pause", "ctl"},
    {"kill", "ctl"},
    {"status", "top"},
    {"ps", "top"},
    {"logs", "top"},
    {"dashboard", "top"},
    {"plot", "report"},
    {"summary", "report"},
    {"dry-run", "plan"},
    {"estimate", "plan"},
    {"hpo", "sweep"},
    {"optimize", "sweep"},
    {"ls", "list"},
    {"models", "list"},
    {"options", "explain"},
    {"docs", "explain"},
    {"man", "explain"},
    {"scaffold", "new"},
    {"quickstart", "new"},
    {"pull", "download"},
    {"get", "download"},
    {"tokenize", "tokenizer"},
    {"preprocess", "prepare"},
    {"shard", "prepare"},
    {"help", "--help"},
    {"version", "--version"},
};

/// The groups of verbs in the help, in the order in which run_cli() adds the first of each.
constexpr std::pair<const char*, const char*> kVerbGroups[] = {
    {"run", "Train"},
    {"launch", "Train"},
    {"resume", "Train"},
    {"smoke", "Train"},
    {"sweep", "Train"},
    {"verify-resume", "Train"},
    {"submit", "Train"},
    {"jobs", "Train"},
    {"diff", "Look at runs"},
    {"report", "Look at runs"},
    {"top", "Look at runs"},
    {"track", "Look at runs"},
    {"ctl", "Look at runs"},
    {"validate", "Write recipes"},
    {"show", "Write recipes"},
    {"why", "Write recipes"},
    {"plan", "Write recipes"},
    {"estimate-memory", "Write recipes"},
    {"list", "Write recipes"},
    {"explain", "Write recipes"},
    {"schema", "Write recipes"},
    {"reference", "Write recipes"},
    {"new", "Write recipes"},
    {"cp", "Write recipes"},
    {"import", "Write recipes"},
    {"lsp", "Write recipes"},
    {"checkpoint", "Use trained models"},
    {"export", "Use trained models"},
    {"push", "Use trained models"},
    {"evaluate", "Use trained models"},
    {"predict", "Use trained models"},
    {"generate", "Use trained models"},
    {"chat", "Use trained models"},
    {"download", "Prepare data and this machine"},
    {"prepare", "Prepare data and this machine"},
    {"tokenizer", "Prepare data and this machine"},
    {"plugin", "Prepare data and this machine"},
    {"config", "Prepare data and this machine"},
    {"env", "Prepare data and this machine"},
    {"test", "Prepare data and this machine"},
    {"completion", "Prepare data and this machine"},
};

/// The help of the program begins with its main use.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_parent()) return CLI::Formatter::make_usage(app, std::move(name));
    return "Usage: accel-run RECIPE [key=value ...] [OPTIONS]\n"
           "       accel-run VERB ...\n";
  }
};

/// The verb for a word that is a misspelling, or another program's name for it; "" for none.
std::string meant_verb(const std::string& word, const std::vector<std::string>& verbs) {
  std::vector<std::string> all = verbs;
  const auto is_there = [&](const std::string& verb) {
    const std::string first = verb.substr(0, verb.find(' '));
    return first.starts_with("--") || std::find(verbs.begin(), verbs.end(), first) != verbs.end();
  };
  for (const auto& [other, ours] : kOtherVerbs) {
    if (is_there(ours)) all.emplace_back(other);
  }
  const std::string near = closest(word, all);
  for (const auto& [other, ours] : kOtherVerbs) {
    if (near == other && is_there(ours)) return ours;
  }
  return near;
}

/// Whether a word is a path or an override: it names a file, or has characters that verbs lack. A
/// folder is not a recipe, so a folder with the name of a verb is none either.
bool is_no_verb(const std::string& word) {
  std::error_code error;
  if (word.find_first_of("./:=~") != word.npos) return true;
  const bool is_verb = std::any_of(std::begin(kOtherVerbs), std::end(kOtherVerbs),
                                   [&](const auto& other) { return word == other.first; });
  return is_verb ? std::filesystem::is_regular_file(word, error)
                 : std::filesystem::exists(word, error);
}

bool is_flag_of_run(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return name == "--config" || name == "--allow" || name == "--new" || name == "--fresh";
}

std::string group_of(const std::string& verb) {
  for (const auto& [name, group] : kVerbGroups) {
    if (verb == name) return group;
  }
  return "Other";
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

/// The verb of `app` that a misspelled word means; "" for other words.
std::string correction_of(const std::string& word, const CLI::App& app) {
  if (word.starts_with('-') || is_no_verb(word)) return "";
  const std::string meant = meant_verb(word, verbs_of(app));
  return meant == word ? "" : meant;
}

[[noreturn]] void refuse_verb(const std::string& message, const std::string& meant) {
  throw Error(ExitCode::kRecipe, message, text("did you mean '{}'?", meant));
}

/// `accel-run recipe.yaml` is short for `accel-run run recipe.yaml`. Throws Error (recipe) for a
/// misspelled verb of `app`.
void insert_default_verb(const CLI::App& app, std::vector<std::string>& words) {
  auto first = words.begin();
  while (first != words.end() && first->starts_with('-') && !is_flag_of_run(*first)) {
    const bool has_value = *first == "--error-format" || takes_display_value(*first);
    first += has_value && words.end() - first > 1 ? 2 : 1;
  }
  if (first == words.end()) return;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() != *first) continue;
    const bool has_verbs = !verb->get_subcommands({}).empty();
    if (!has_verbs || words.end() - first < 2) return;
    const std::string meant = correction_of(first[1], *verb);
    if (!meant.empty()) refuse_verb(text("'{}' has no verb '{}'", *first, first[1]), meant);
    return;
  }
  const std::string meant = correction_of(*first, app);
  if (!meant.empty()) refuse_verb(text("there is no verb '{}'", *first), meant);
  words.insert(first, "run");
}

/// Whether the words select JSON errors, for errors before they are parsed.
bool wants_json(const std::vector<std::string>& words) {
  const auto format = std::find(words.begin(), words.end(), "--error-format");
  const bool apart = format != words.end() && words.end() - format > 1 && format[1] == "json";
  return apart || std::find(words.begin(), words.end(), "--error-format=json") != words.end();
}

/// A parse error of CLI11 in the form of this program's errors.
Error usage_error(const CLI::ParseError& error) {
  std::string text = error.what();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  // A flag of another program, such as --lr 0.1.
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  return Error(ExitCode::kRecipe, text,
               extra ? "options of the recipe are key=value, such as optimizer.lr=1e-3; "
                       "'accel-run VERB --help' lists the flags"
                     : "'accel-run --help' lists the verbs, 'accel-run VERB --help' the options of "
                       "one");
}

}  // namespace

VerbTable::VerbTable(std::vector<std::string> argv)
    : argv_(std::move(argv)),
      app_(std::make_unique<CLI::App>("Trains a recipe: accel-run RECIPE [key=value ...]",
                                      "accel-run")) {
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->require_subcommand(1);
  app_->set_version_flag("--version", text("accel-run {} ({}, libtorch {})", build_info().version,
                                           build_info().commit, build_info().torch));
  app_->add_option("--error-format", error_format_, "format of error messages: text or json")
      ->check(CLI::IsMember({"text", "json"}));
  add_display_options(*app_, display_);
  app_->fallthrough();
}

VerbTable::~VerbTable() = default;

CLI::App& VerbTable::add(const char* name, const char* help, Run run) {
  return add(*app_, name, help, std::move(run));
}

CLI::App& VerbTable::add(CLI::App& group, const char* name, const char* help, Run run) {
  CLI::App* verb = group.add_subcommand(name, help);
  if (&group == app_.get()) verb->group(group_of(name));
  verb->callback([this, verb, run = std::move(run)] {
    if (verb->get_subcommands().empty()) chosen_ = run;
  });
  return *verb;
}

CLI::App& VerbTable::add_group(const char* name, const char* help) {
  CLI::App* group = app_->add_subcommand(name, help);
  group->group(group_of(name));
  group->require_subcommand(1);
  return *group;
}

VerbTable::Run VerbTable::with_torch(Run run) const {
  return [this, run = std::move(run)] {
    require_torch(argv_);
    return run();
  };
}

VerbTable::Run VerbTable::training(TrainingVerb verb) const {
  return [this, verb = std::move(verb)] {
    SignalWatch::hold();
    torch_is_there();  // restores the user's environment, which recipes may refer to
    if (const std::optional<ExitCode> code = verb.launch()) return *code;
    require_torch(argv_);
    const SignalWatch signals;
    RankSession session;
    return session.guarded(json(), [&] { return verb.run(session); });
  };
}

void VerbTable::add_recipe(CLI::App& verb, RecipeArguments& to, const char* help) {
  verb.add_option("recipe", to.path, help)->required();
  verb.add_option("overrides", to.overrides,
                  "key=value, 'key+=value', 'key!=value' or '~key', as in the recipe");
  recipes_.push_back(&to);
}

int VerbTable::position_of(const std::string& word) const {
  return static_cast<int>(std::find(argv_.begin(), argv_.end(), word) - argv_.begin());
}

int VerbTable::run_chosen() {
  warn_as_json(json());
  apply_display_options(display_);
  for (RecipeArguments* recipe : recipes_) {
    recipe->json = json();
    if (recipe->overrides.empty()) continue;
    recipe->first_override = position_of(recipe->overrides.front());
  }
  require_working_folder();
  return static_cast<int>(chosen_());
}

int VerbTable::run() {
  std::vector<std::string> words(argv_.begin() + 1, argv_.end());
  if (words.empty()) {
    std::cout << app_->help();
    return static_cast<int>(ExitCode::kRecipe);
  }
  apply_color_in(words);
  try {
    insert_default_verb(*app_, words);
    hoist_display_options(words);
    std::reverse(words.begin(), words.end());
    app_->parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);  // --help, --version
    print_error(error_text(usage_error(error), json()));
    return static_cast<int>(ExitCode::kRecipe);
  } catch (const Error& error) {
    print_error(error_text(error, wants_json(argv_)));
    return static_cast<int>(error.code());
  }
  try {
    return run_chosen();
  } catch (const Error& error) {
    print_error(error_text(error, json()));
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    print_error(error_text(error, json()));
    return static_cast<int>(exit_code_of(error));
  }
}

void add_config(CLI::App& verb, std::string& to, const char* help) {
  verb.add_option("--config", to, help);
}

void add_repeated(CLI::App& verb, const char* name, std::vector<std::string>& to,
                  const char* help) {
  verb.add_option(name, to, help)->expected(1)->take_all()->allow_extra_args(false);
}

int run_cli(std::vector<std::string> argv) {
  VerbTable verbs(std::move(argv));
  add_run_verbs(verbs);
  add_sweep_verb(verbs);
  add_verify_verbs(verbs);
  add_submit_verbs(verbs);
  add_view_verbs(verbs);
  add_ctl_verb(verbs);
  add_track_verbs(verbs);
  add_recipe_verbs(verbs);
  add_plan_verb(verbs);
  add_estimate_verb(verbs);
  add_catalog_verbs(verbs);
  add_import_verb(verbs);
  add_editor_verb(verbs);
  add_checkpoint_verbs(verbs);
  add_export_verb(verbs);
  add_push_verb(verbs);
  add_apply_verbs(verbs);
  add_generate_verb(verbs);
  add_chat_verb(verbs);
  add_download_verb(verbs);
  add_prepare_verb(verbs);
  add_tokenizer_verbs(verbs);
  add_plugin_verbs(verbs);
  add_config_verbs(verbs);
  add_test_verb(verbs);
  add_completion_verb(verbs);
  const int code = verbs.run();
  try {
    finish_output();
  } catch (const Error& error) {
    std::cerr << error_text(error, verbs.json());
    return code == 0 ? static_cast<int>(error.code()) : code;
  }
  return code;
}

}  // namespace accel
