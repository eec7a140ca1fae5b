// config and env.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <span>

#include "core/build_info.h"
#include "core/log.h"
#include "core/utf8.h"
#include "runner/checkpoint/files.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/verbs.h"
#include "runner/launch/config_file.h"
#include "runner/launch/config_questions.h"
#include "runner/launch/machine_facts.h"
#include "runner/launch/rank_place.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// The file that is meant: the one named, or Accelerate's own place.
std::string config_target(const std::string& named) {
  const std::string path = named.empty() ? default_config_path(&environment_variable) : named;
  if (!path.empty()) return path;
  throw Error(ExitCode::kRecipe, "there is no home folder for a config",
              "name a file with --config_file, or set HF_HOME");
}

/// The file that is there: the one named, or the default.
std::string config_source(const std::string& named) {
  return named.empty() ? find_default_config(&environment_variable) : named;
}

/// Whole or not at all. What a link points to is replaced, not the link.
void write_config(const std::string& path, const std::string& text) {
  std::error_code none;
  const fs::path target = fs::exists(path, none) ? fs::canonical(path) : fs::absolute(path);
  const std::string folder = target.parent_path().string();
  const std::string draft = target.string() + ".new";
  try {
    DiskFiles files;
    files.make_dirs(folder);
    files.remove_tree(draft);
    const std::unique_ptr<OutputFile> file = files.create(draft);
    file->write(std::as_bytes(std::span(text)));
    file->sync();
    file->close();
    files.rename(draft, target.string());
    files.sync_dir(folder);
  } catch (const FileError& error) {
    throw IoError("cannot write the config '" + path + "': " + error.what(),
                  "name another file with --config_file");
  }
}

void print_facts(const Facts& facts, const std::string& indent) {
  size_t width = 10;
  for (const auto& [name, value] : facts) width = std::max(width, name.size());
  for (const auto& [name, value] : facts) {
    std::cout << indent << name << std::string(width + 2 - name.size(), ' ') << printable(value)
              << '\n';
  }
}

void print_indented(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::cout << "  " << printable(text.substr(begin, end - begin)) << '\n';
    begin = end + 1;
  }
}

}  // namespace

ExitCode config_verb(const std::string& file) {
  const std::string path = config_target(file);
  const ConfigAnswers answers = ask_config(std::cin, std::cout, gpus_here());
  write_config(path, config_text(config_tree(answers), path));
  say("wrote " + path);
  return ExitCode::kDone;
}

ExitCode config_default_verb(const std::string& file, const std::string& mixed_precision) {
  const std::string path = config_target(file);
  std::error_code none;
  if (fs::exists(path, none)) {
    throw Error(ExitCode::kRecipe, "there is a config already: '" + path + "'",
                "'accel-run config' asks anew and replaces it");
  }
  ConfigAnswers answers;
  answers.mixed_precision = mixed_precision;
  write_config(path, config_text(config_tree(answers), path));
  say("wrote " + path);
  return ExitCode::kDone;
}

ExitCode config_update_verb(const std::string& file) {
  const std::string path = config_source(file);
  if (path.empty()) {
    throw Error(ExitCode::kRecipe, "there is no config to update",
                "name one with --config_file, or make one with 'accel-run config'");
  }
  Diagnostics problems;
  const Node updated = updated_config(parse_config(path), problems);
  problems.check();
  write_config(path, config_text(updated, path));
  say("wrote " + path);
  return ExitCode::kDone;
}

ExitCode env_verb(const std::string& file) {
  const BuildInfo build = build_info();
  const std::string path = config_source(file);
  const std::string config = path.empty() ? "" : config_file_text(path);
  const Facts variables = run_variables(environ);
  Facts facts = {{"accel-run", std::string(build.version) + " (" + std::string(build.commit) + ")"},
                 {"libtorch", std::string(build.torch)}};
  for (const auto& fact : machine_facts()) facts.push_back(fact);
  facts.emplace_back("config", path.empty() ? "none" : path);
  print_facts(facts, "");
  print_indented(config);
  std::cout << "variables\n";
  print_facts(variables, "  ");
  return ExitCode::kDone;
}

}  // namespace accel
