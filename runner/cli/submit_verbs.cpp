// submit and jobs.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/world.h"
#include "runner/launch/run_program.h"
#include "runner/plan/number_text.h"
#include "runner/plan/plan.h"
#include "runner/submit/read_submit.h"
#include "runner/submit/submission.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct SubmitArguments {
  RecipeArguments recipe;
  bool print = false;
};

constexpr double kGraceShare = 0.1, kMostGrace = 120;  ///< of the time limit; seconds
constexpr const char* kMachineKeys[] = {"num_machines", "machine_rank", "main_process_ip",
                                        "main_process_port"};

const Node* accelerator_key(const Node& recipe, const char* key) {
  const Node::Entry* section = recipe.find("accelerator");
  const Node::Entry* entry = section ? section->node.find(key) : nullptr;
  return entry ? &entry->node : nullptr;
}

/// The section of the config. Throws RecipeError.
SubmitSection section_of(const LoadedRecipe& loaded, const RecipeArguments& arguments) {
  Diagnostics problems;
  if (loaded.submit.null()) {
    throw Error(ExitCode::kRecipe, text("'{}' has no section 'submit'", arguments.config),
                "add one: submit: {to: slurm, nodes: 2, gpus: 8, time: 4 h}");
  }
  SubmitSection section = read_submit(loaded.submit, problems);
  for (const char* key : kMachineKeys) {
    const Node* given = accelerator_key(loaded.composition.recipe, key);
    if (!given) continue;
    problems.error(given->where, text("'accelerator.{}' is of one machine", key),
                   "leave it out: the job finds its machines, 'submit.nodes' of them");
  }
  problems.check();
  return section;
}

/// Ranks of one machine. Throws RecipeError.
int64_t ranks_per_node(const LoadedRecipe& loaded, const SubmitSection& section) {
  const auto wanted = loaded.options.accelerator.num_processes;
  const int64_t ranks =
      section.gpus > 0 ? section.gpus * section.nodes : wanted.value_or(section.nodes);
  Diagnostics problems;
  const Node* given = accelerator_key(loaded.composition.recipe, "num_processes");
  if (wanted && given && (*wanted != ranks || ranks % section.nodes != 0)) {
    problems.error(given->where,
                   section.gpus > 0
                       ? text("'num_processes' is {}, but {} machines with {} GPUs have {} ranks",
                              *wanted, section.nodes, section.gpus, ranks)
                       : text("'num_processes' is {}, which {} machines cannot share evenly",
                              *wanted, section.nodes),
                   "leave it out, or make it a multiple of 'submit.nodes'");
  }
  problems.check();
  return ranks / section.nodes;
}

void set_unless_given(Node& layer, const LoadedRecipe& loaded, const char* section, const char* key,
                      const std::string& value) {
  const Node::Entry* given = loaded.composition.recipe.find(section);
  if (given && given->node.find(key)) return;
  Node::Entry* target = layer.find(section);
  if (!target) {
    layer.map()->push_back({section, {}, Node(Node::Map{}, {})});
    target = &layer.map()->back();
  }
  target->node.map()->push_back({key, {}, scalar_node(value)});
}

/// What the resources imply for the recipe.
Node resource_layer(const LoadedRecipe& loaded, const SubmitSection& section, int64_t ranks) {
  Node layer(Node::Map{}, {});
  set_unless_given(layer, loaded, "accelerator", "num_processes",
                   std::to_string(ranks * section.nodes));
  set_unless_given(layer, loaded, "accelerator", "max_restarts", std::to_string(section.retries));
  if (section.gpus > 0) set_unless_given(layer, loaded, "accelerator", "device", "cuda");
  // In Slurm the run finds the end of its job by itself.
  if (section.time && section.to != SubmitTarget::kSlurm) {
    const double grace = std::min(section.time->seconds * kGraceShare, kMostGrace);
    set_unless_given(layer, loaded, "checkpoint", "deadline",
                     std::to_string(std::lround(section.time->seconds - grace)) + " s");
  }
  return layer;
}

LoadedRecipe load_for(const RecipeArguments& arguments, const SubmitSection& section) {
  // Its files are on this machine where the cluster shares them.
  const bool shared = section.to == SubmitTarget::kSlurm && section.image.empty();
  return shared ? load_runnable(arguments) : load_recipe(arguments);
}

[[noreturn]] void refuse_memory(const std::string& what, int64_t needed, int64_t given,
                                const std::string& hint) {
  throw Error(ExitCode::kMemory,
              text("{} would need {}, and the job asks for {}", what, bytes_text(needed),
                   bytes_text(given)),
              hint);
}

/// Prints the plan of the recipe on the job's machines. Throws Error when it cannot fit.
void check_plan(const LoadedRecipe& loaded, const SubmitSection& section, int64_t ranks) {
  std::optional<Plan> plan;
  try {
    const DataSchema data = open_data(loaded.options, loaded.resolved, *loaded.registry);
    plan =
        make_plan(loaded.options, loaded.resolved, *loaded.registry, data, ranks * section.nodes);
  } catch (const Error& error) {
    if (section.to == SubmitTarget::kSlurm && section.image.empty()) throw;
    warn(text("memory is not checked: the recipe cannot be planned here: {}", error.what()));
    return;
  }
  const int64_t tensors = plan->memory.total();
  say(text("plan: {} ranks on {} machines, {} of tensors per rank, {} steps", ranks * section.nodes,
           section.nodes, bytes_text(tensors), plan->total_steps));
  if (section.gpus > 0) {
    if (section.gpu_memory && tensors > section.gpu_memory.value->bytes) {
      refuse_memory("a GPU", tensors, section.gpu_memory.value->bytes,
                    "'accel-run plan' names changes of the recipe that save memory");
    }
    return;
  }
  const int64_t machine = ranks * tensors;
  if (section.memory && machine > section.memory.value->bytes) {
    refuse_memory("a machine", machine, section.memory.value->bytes,
                  "raise 'submit.memory', or see 'accel-run plan'");
  }
}

/// The recipe as the machines run it.
std::string frozen_recipe(Node resolved) {
  if (Node::Entry* section = resolved.find("accelerator")) {
    std::erase_if(*section->node.map(), [](const Node::Entry& entry) {
      return std::any_of(std::begin(kMachineKeys), std::end(kMachineKeys),
                         [&](const char* key) { return entry.key == key; });
    });
  }
  return to_yaml(resolved);
}

/// Where the run's folder is on the machines.
std::string run_dir_of(const SubmitSection& section, const std::string& name) {
  const std::string usual = "runs/" + name;
  if (section.to == SubmitTarget::kSlurm) return usual;
  for (const std::string& text : section.mounts) {
    const Mount mount = *mount_of(text);
    const bool keeps = section.on_kubernetes() || mount.source.starts_with("fsx/");
    if (!mount.read_only && keeps) return mount.target + "/" + usual;
  }
  return "/opt/ml/checkpoints/" + name;
}

std::string stamp_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y%m%d-%H%M%S", &parts);
  return buffer;
}

void check_secrets(const SubmitSection& section) {
  if (section.to != SubmitTarget::kSlurm) return;
  for (const auto& [name, value] : section.env) {
    if (value.reference.empty() || environment_variable(name)) continue;
    throw Error(ExitCode::kRecipe, text("the secret '{}' of 'submit.env' is not set", name),
                "export it: sbatch hands the environment on, so that no file has it");
  }
}

SubmittedJob job_of(const LoadedRecipe& loaded, const SubmitSection& section, int64_t ranks) {
  SubmittedJob job;
  job.name = loaded.options.name;
  job.recipe = frozen_recipe(loaded.resolved);
  job.folder = fs::current_path().string();
  job.run_dir = run_dir_of(section, job.name);
  job.stamp = stamp_now();
  job.ranks_per_node = ranks;
  job.section = section;
  return job;
}

/// Whether a container has a path of this machine: relative ones are in the working folder, which
/// only pyxis mounts.
bool is_mounted(const std::string& path, const SubmittedJob& job) {
  const auto below = [&](const std::string& folder) {
    const std::string full = fs::absolute(path).lexically_normal().string();
    return full == folder || full.starts_with(folder + "/");
  };
  if (job.section.to == SubmitTarget::kSlurm && below(job.folder)) return true;
  return std::any_of(job.section.mounts.begin(), job.section.mounts.end(),
                     [&](const std::string& text) { return below(mount_of(text)->target); });
}

/// Warns of each path of the recipe that is on this machine and not in the job's containers.
void warn_of_paths(const Node& node, const std::string& key, const SubmittedJob& job) {
  if (node.map()) {
    for (const Node::Entry& entry : *node.map()) {
      warn_of_paths(entry.node, key.empty() ? entry.key : key + "." + entry.key, job);
    }
  } else if (node.list()) {
    for (const Node& item : *node.list()) warn_of_paths(item, key, job);
  } else if (const Scalar* scalar = node.scalar(); scalar && !scalar->secret) {
    const std::string& path = scalar->text;
    std::error_code none;
    if (path.find('/') == path.npos || !fs::exists(path, none) || is_mounted(path, job)) return;
    warn(text("'{}' is '{}', a path of this machine that no mount of the job has", key, path));
  }
}

ExitCode submit_verb(const SubmitArguments& given) {
  RecipeArguments arguments = given.recipe;
  arguments.for_submit = true;
  if (arguments.config.empty()) {
    throw Error(ExitCode::kRecipe, "'submit' wants a config with the section 'submit'",
                "write: accel-run submit RECIPE --config cluster.yaml");
  }
  const LoadedRecipe first = load_recipe(arguments);
  const SubmitSection section = section_of(first, arguments);
  const int64_t ranks = ranks_per_node(first, section);
  arguments.flags.push_back(resource_layer(first, section, ranks));
  const LoadedRecipe loaded = load_for(arguments, section);
  check_ranks(loaded.options, loaded.resolved);
  const SubmittedJob job = job_of(loaded, section, ranks);
  if (!section.image.empty()) warn_of_paths(loaded.resolved, "", job);
  const std::string client = client_of(section.to);
  const bool can_send = has_program(client);
  if (given.print || !can_send) {
    report_warnings(loaded);
    if (!given.print) {
      warn(text("'{}' is not on PATH: the spec is printed, not submitted", client));
    }
    std::cout << spec_text(job);
    return ExitCode::kDone;
  }
  report_layers(arguments, loaded);
  check_secrets(section);
  check_plan(loaded, section, ranks);
  const std::string folder = "runs/" + job.name;
  const std::string path = write_spec(job, folder);
  const Submission sent = hand_over(job, path, folder);
  say(text("submitted {} to {}: {}", sent.id, client, path));
  say(text("log: {}", sent.log));
  say(text("state: accel-run jobs {}", folder));
  return ExitCode::kDone;
}

void print_jobs(const std::string& run_dir) {
  for (const Submission& each : submissions_of(run_dir)) {
    say(text("{}  {}  {}  {}  {}", run_dir, each.id, each.time, state_of(each), each.log));
  }
}

ExitCode jobs_verb(const std::string& run_dir) {
  std::vector<std::string> folders;
  if (!run_dir.empty()) {
    if (submissions_of(run_dir).empty()) {
      throw Error(ExitCode::kRecipe, text("nothing was submitted from '{}'", run_dir),
                  "give a run folder of 'accel-run submit', such as runs/NAME");
    }
    folders = {run_dir};
  } else {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("runs", none)) {
      folders.push_back(entry.path().string());
    }
    std::sort(folders.begin(), folders.end());
  }
  for (const std::string& folder : folders) print_jobs(folder);
  return ExitCode::kDone;
}

}  // namespace

void add_submit_verbs(VerbTable& verbs) {
  const auto to = std::make_shared<SubmitArguments>();
  CLI::App& submit = verbs.add("submit", "submit a recipe to Slurm, Kubernetes or SageMaker",
                               verbs.with_torch([to] { return submit_verb(*to); }));
  verbs.add_recipe(submit, to->recipe, "a recipe");
  add_config(submit, to->recipe.config, "a config with the section 'submit', or Accelerate's");
  submit.add_flag("--print", to->print, "print the spec instead of submitting it");
  const auto run_dir = std::make_shared<std::string>();
  CLI::App& jobs = verbs.add("jobs", "list what 'submit' has submitted, with states and logs",
                             [run_dir] { return jobs_verb(*run_dir); });
  jobs.add_option("run", *run_dir, "a run folder; default: all in runs/");
}

}  // namespace accel
