// import: converts the config of another trainer to a recipe. download: models and datasets of the
// hub, and built-in datasets from their sites.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "compat/accelerate/config_file.h"
#include "compat/trainers/import_recipe.h"
#include "core/base/hub_cache.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "data/datasets/downloaded_set.h"
#include "models/hf/hf_family.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/cli/cli.h"
#include "runner/cli/error_text.h"
#include "runner/cli/load_recipe.h"
#include "runner/draft/new_recipe.h"
#include "runner/fetch/sources.h"
#include "train/recipe/recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  std::string source;  ///< the config of another trainer
  std::string target;  ///< the recipe to write; empty: it is printed
  std::string peer;    ///< the trainer; empty: detected from the config's keys
};

constexpr auto kAccelerate = "accelerate";

/// A key of a config; sections are divided into their keys.
struct ConfigKey {
  std::string name;
  const Node::Entry* entry;
};

/// Of one file that was read twice.
bool same_position(const Span& a, const Span& b) {
  return a.source && b.source && a.source->path == b.source->path && a.line == b.line &&
         a.column == b.column;
}

std::vector<ConfigKey> keys_of(const Node& tree) {
  std::vector<ConfigKey> keys;
  for (const Node::Entry& entry : *tree.map()) {
    const Node::Map* section = entry.node.map();
    if (!section || section->empty()) keys.push_back({entry.key, &entry});
    if (!section) continue;
    for (const Node::Entry& inner : *section) keys.push_back({entry.key + '.' + inner.key, &inner});
  }
  return keys;
}

/// A warning about a key becomes the reason why it is not in the recipe.
bool leave_warned(const std::string& warning, const std::string& path,
                  const std::vector<ConfigKey>& keys, Imported& out) {
  for (const auto& [name, entry] : keys) {
    const std::string position = path + ':' + std::to_string(entry->where.line) + ':';
    if (!warning.starts_with(position)) continue;
    const size_t text = warning.find(": ", position.size());
    out.left.push_back({name, entry->where, warning.substr(text + 2)});
    std::erase_if(out.taken, [&, &key = name](const ImportedKey& each) { return each.key == key; });
    return true;
  }
  return false;
}

/// An Accelerate config becomes a section of a recipe: `--config` reads both.
Imported import_accelerate(const std::string& path) {
  Imported out;
  out.peer = kAccelerate;
  out.detected_by = "compute_environment, distributed_type";
  Diagnostics problems;
  ConfigLayer config = read_config(path, /*on_cpu=*/true, problems);
  out.recipe = std::move(config.tree);
  const Node tree = parse_config(path);
  const std::vector<ConfigKey> keys = keys_of(tree);
  std::vector<Diagnostic> unnamed = problems.list();
  for (const auto& [name, entry] : keys) {
    const Span& where = entry->where;
    const Span& value = entry->node.where;
    const auto about = [&](const Diagnostic& problem) {
      return same_position(problem.where, where) || same_position(problem.where, value);
    };
    const auto found = std::find_if(unnamed.begin(), unnamed.end(), about);
    if (found != unnamed.end()) {
      out.left.push_back({name, where, found->message});
      unnamed.erase(found);
    } else {
      out.taken.push_back({name, where, ""});
    }
  }
  for (const std::string& warning : config.warnings) {
    if (!leave_warned(warning, path, keys, out)) out.remarks.push_back(warning);
  }
  // Those of another file, and those of a section as a whole.
  for (const Diagnostic& problem : unnamed) out.remarks.push_back(problem.message);
  for (std::string& remark : config.remarks) out.remarks.push_back(std::move(remark));
  out.remarks.emplace_back("this config says where to run: use it with --config");
  return out;
}

/// What sentences of the import may say of this program.
ProgramIndex program_index() {
  return ProgramIndex(RecipeOptions::schema().info(), components().all(),
                      [](const std::string& type) { return HfFamily::of_model_type(type); });
}

Imported import_file(const std::string& path, const std::string& peer) {
  const Node tree = parse_config(path);
  const bool accelerate = tree.find("compute_environment") || tree.find("distributed_type");
  if (peer == kAccelerate || (peer.empty() && accelerate)) return import_accelerate(path);
  return import_recipe(tree, path, peer, program_index());
}

/// The remaining errors of the recipe, read as if it were at `path`.
std::vector<Diagnostic> still_wrong(const std::string& path, const std::string& text) {
  RecipeArguments arguments;
  arguments.path = path;
  arguments.texts[fs::weakly_canonical(path).string()] = text;
  try {
    load_runnable(arguments);
  } catch (const RecipeError& error) {
    return error.diagnostics();
  }
  return {};
}

void say_format(const ImportArguments& arguments, const Imported& imported) {
  const std::string how = arguments.peer.empty() ? text("recognized by {}", imported.detected_by)
                                                 : std::string("as given by '--from'");
  std::cerr << text("{}: a config of {}, {}\n", arguments.source, imported.peer, how);
}

ExitCode import_verb(const ImportArguments& arguments) {
  const std::string& target = arguments.target;
  if (!target.empty()) check_new_file(target);
  const Imported imported = import_file(arguments.source, arguments.peer);
  say_format(arguments, imported);
  check_method(imported);
  const std::string recipe = imported_text(imported);
  std::vector<Diagnostic> wrong;
  if (imported.peer != kAccelerate) {
    wrong = still_wrong(target.empty() ? "imported.yaml" : target, recipe);
  }
  if (target.empty()) {
    std::cout << recipe << std::flush;
  } else {
    write_new_file(target, recipe);
    std::cerr << "wrote " << target << '\n';
  }
  std::cerr << import_report(imported);
  if (!wrong.empty()) std::cerr << "still to do:\n";
  for (const Diagnostic& problem : wrong) print_error(render(problem));
  return ExitCode::kDone;
}

struct DownloadArguments {
  std::string source;              ///< a dataset, or `hf:[datasets/]org/name[@revision]`
  std::string target;              ///< a folder; empty: the cache of the hub, or of the user
  std::vector<std::string> files;  ///< patterns of files in a hub repository
};

constexpr auto kMirrorVariable = "ACCEL_RUN_MIRROR";

const KnownSet& set_named(const std::string& source) {
  std::vector<std::string> names;
  for (const KnownSet& set : known_sets()) {
    if (source == set.name) return set;
    names.emplace_back(set.name);
  }
  std::string all;
  for (const std::string& name : names) all.append("'").append(name).append("' or ");
  const std::string near = did_you_mean(source, names);
  throw Error(ExitCode::kRecipe, text("there is no download named '{}'", source),
              near.empty() ? text("give {}'hf:organisation/name'", all) : near);
}

std::string folder_for(const KnownSet& set, const std::string& target) {
  const std::string folder = target.empty() ? downloaded_set_folder(set.name).string() : target;
  if (!folder.empty()) return folder;
  throw IoError("no folder for downloads: neither XDG_CACHE_HOME nor HOME is set",
                "name a folder with '--to'");
}

ExitCode download_verb(const DownloadArguments& arguments) {
  const std::string& source = arguments.source;
  const std::string& target = arguments.target;
  const RetryPolicy retry{.say = &say};
  if (source.starts_with(kHubPrefix)) {
    HubName name = parse_hub_name(source);
    name.files = arguments.files;
    const HubAddress address = hub_address(&environment_variable);
    const auto client = make_download_client();
    const auto folder = download_repository(*client, name, address, target, retry);
    say(name.files.empty()
            ? text("all files of '{}' are in {}", name.repository, folder.string())
            : text("those files of '{}' are in {}", name.repository, folder.string()));
    return ExitCode::kDone;
  }
  if (!arguments.files.empty()) {
    throw Error(ExitCode::kRecipe,
                text("'--files' selects files of a hub repository, and '{}' is none", source),
                "leave it out");
  }
  const KnownSet& set = set_named(source);
  const std::string folder = folder_for(set, target);
  const std::string mirror = environment_variable(kMirrorVariable).value_or("");
  const auto client = make_download_client();
  download_set(*client, set, mirror, folder, retry);
  say(text("all files of {} are in {}; in a recipe they are {type: {}{}}", source, folder, set.name,
           target.empty() ? "" : ", path: " + folder));
  return ExitCode::kDone;
}

}  // namespace

void add_import_verb(VerbTable& verbs) {
  const auto to = std::make_shared<ImportArguments>();
  CLI::App& verb = verbs.add("import", "convert another trainer's config to a recipe",
                             [to] { return import_verb(*to); });
  verb.add_option("file", to->source, "a config in YAML, JSON or TOML")->required();
  verb.add_option("--to", to->target, "the recipe to write; default: print it");
  std::vector<std::string> formats;
  for (const TrainerFormat& format : trainer_formats()) formats.emplace_back(format.name);
  formats.emplace_back(kAccelerate);
  verb.add_option("--from", to->peer,
                  "the trainer, where the keys do not show it: " + joined(formats))
      ->check(CLI::IsMember(formats));
}

void add_download_verb(VerbTable& verbs) {
  const auto to = std::make_shared<DownloadArguments>();
  CLI::App& verb =
      verbs.add("download", "download a model or dataset", [to] { return download_verb(*to); });
  verb.add_option("source", to->source,
                  "hf:organisation/name, hf:datasets/organisation/name, either with @revision; "
                  "mnist, cifar10 or sst2")
      ->required();
  verb.add_option("--to", to->target, "a folder; default: the hub's cache, or the user's");
  verb.add_option("--files", to->files,
                  "only files of the repository that match, such as 'en/*.parquet'");
}

}  // namespace accel
