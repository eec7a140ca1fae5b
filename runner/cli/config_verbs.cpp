// config and env.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <memory>

#include <filesystem>
#include <iostream>

#include "compat/accelerate/config_file.h"
#include "compat/accelerate/config_questions.h"
#include "core/base/build_info.h"
#include "core/base/files.h"
#include "core/base/hardware_info.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// `named`, or Accelerate's default path.
std::string config_target(const std::string& named) {
  const std::string path = named.empty() ? default_config_path(&environment_variable) : named;
  if (!path.empty()) return path;
  throw Error(ExitCode::kRecipe, "no home folder for the config",
              "name a file with --config_file, or set HF_HOME");
}

/// `named`, or the default config if it exists.
std::string config_source(const std::string& named) {
  return named.empty() ? find_default_config(&environment_variable) : named;
}

/// Replaces the file atomically; the target of a symbolic link, not the link.
void write_config(const std::string& path, const std::string& text) {
  std::error_code none;
  const fs::path target = fs::exists(path, none) ? fs::canonical(path) : fs::absolute(path);
  try {
    write_file_with_folder(target.string(), text);
  } catch (const IoError& error) {
    throw IoError(accel::text("cannot write the config '{}': {}", path, error.what()),
                  "name another file with --config_file");
  }
}

void print_values(const NamedValues& values, const std::string& indent) {
  size_t width = 10;
  for (const auto& [name, value] : values) width = std::max(width, name.size());
  for (const auto& [name, value] : values) {
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

ExitCode config_verb(const std::string& file) {
  const std::string path = config_target(file);
  const ConfigAnswers answers = ask_config(std::cin, std::cout, gpus_here());
  write_config(path, config_text(config_tree(answers), path));
  say(text("wrote {}", path));
  return ExitCode::kDone;
}

ExitCode config_default_verb(const std::string& file, const std::string& mixed_precision) {
  const std::string path = config_target(file);
  std::error_code none;
  if (fs::exists(path, none)) {
    throw Error(ExitCode::kRecipe, text("there is already a config: '{}'", path),
                "'accel-run config' asks again and replaces it");
  }
  ConfigAnswers answers;
  answers.mixed_precision = mixed_precision;
  write_config(path, config_text(config_tree(answers), path));
  say(text("wrote {}", path));
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
  say(text("wrote {}", path));
  return ExitCode::kDone;
}

ExitCode env_verb(const std::string& file) {
  const BuildInfo build = build_info();
  const std::string path = config_source(file);
  const std::string config = path.empty() ? "" : config_file_text(path);
  const NamedValues variables = run_variables(environ);
  NamedValues values = {
      {"accel-run", std::string(build.version) + " (" + std::string(build.commit) + ")"},
      {"libtorch", std::string(build.torch)}};
  for (const auto& value : hardware_info()) values.push_back(value);
  values.emplace_back("config", path.empty() ? "none" : path);
  print_values(values, "");
  print_indented(config);
  std::cout << "variables\n";
  print_values(variables, "  ");
  return ExitCode::kDone;
}

}  // namespace

void add_config_verbs(VerbTable& verbs) {
  struct ConfigArguments {
    std::string file;
    std::string mixed_precision = "no";
  };
  const auto to = std::make_shared<ConfigArguments>();
  const auto add_file = [&](CLI::App& verb) {
    verb.add_option("--config_file,--config-file", to->file,
                    "the file; default: Accelerate's default config");
  };
  // The root verb itself unless one of its subcommands is given.
  CLI::App& config = verbs.add("config", "ask where to run and write a config for 'launch'",
                               [to] { return config_verb(to->file); });
  config.require_subcommand(0, 1);
  add_file(config);
  CLI::App& standard =
      verbs.add(config, "default", "write a config for one process, without questions",
                [to] { return config_default_verb(to->file, to->mixed_precision); });
  standard
      .add_option("--mixed_precision,--mixed-precision", to->mixed_precision,
                  "no (the default), fp16, bf16 or fp8")
      ->check(CLI::IsMember({"no", "fp16", "bf16", "fp8"}));
  add_file(standard);
  add_file(verbs.add(config, "update", "add the keys of the current version to an old config",
                     [to] { return config_update_verb(to->file); }));
  add_file(verbs.add("env", "print version, build and machine information",
                     [to] { return env_verb(to->file); }));
}

}  // namespace accel
