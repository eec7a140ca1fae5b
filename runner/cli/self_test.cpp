// test: checks in a few seconds that this machine can train with several processes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/mesh.h"
#include "parallel/operations.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/cli/world.h"
#include "track/record.h"
#include "train/job/build_job.h"
#include "train/job/build_strategy.h"
#include "train/loop/run.h"
#include "train/step/train_step.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct TestArguments {
  std::optional<int64_t> processes;
  std::string config;  ///< a config file, whose mesh is tested; empty: none
};

constexpr int64_t kTestProcesses = 2;

constexpr auto kMeshRecipeName = "self-test-of-mesh.yaml";
constexpr auto kSelfTestRecipe =
    "model: {type: mlp, hidden_sizes: [16], dropout: 0.1}\n"
    "data: {train: {type: synthetic/glyphs, length: 100}, loader: {workers: 0}}\n"
    "optimizer: {type: adamw, lr: 0.01}\n"
    "train: {until: 12 steps, batch: 16, micro_batch: 2}\n";

/// The smallest recipe that a mesh divides, but for mesh_overrides(). Its batches are its own.
constexpr auto kMeshRecipe =
    "model: {type: llama}\n"
    "data:\n"
    "  train: {type: synthetic/addition}\n"
    "  loader: {workers: 0, split_batches: true}\n"
    "optimizer: {type: adamw, lr: 0.003}\n"
    "train: {until: 8 steps, micro_batch: 2, gradient_accumulation_steps: auto}\n"
    "checkpoint: {every: 4 steps}\n";

struct TestRecipe {
  RecipeOptions options;
  Node resolved;
};

TestRecipe recipe_with(const std::string& more) {
  Diagnostics problems;
  Reading reading{problems, components()};
  const Node tree = parse_recipe("self-test.yaml", kSelfTestRecipe + more);
  TestRecipe recipe{read_recipe(tree, "self-test", reading), {}};
  recipe.resolved = resolve_recipe(recipe.options, tree);
  return recipe;
}

/// kMeshRecipe with the config under it and these overrides.
LoadedRecipe with_config(const std::vector<std::string>& overrides, const std::string& config) {
  RecipeArguments arguments;
  arguments.path = kMeshRecipeName;
  arguments.texts[fs::weakly_canonical(arguments.path).string()] = kMeshRecipe;
  arguments.config = config;
  arguments.overrides = overrides;
  arguments.quiet = true;
  return load_runnable(arguments);
}

/// Overrides that make the model and the batches as small as the axes of a mesh allow.
std::vector<std::string> mesh_overrides(const AcceleratorSection& section, int64_t ranks) {
  const ParallelismSection& axes = section.parallelism;
  const MeshSizes sizes = sizes_of_mesh(section, ranks);
  const int64_t heads = 2 * axes.tp * axes.sp;
  const int64_t batch = 2 * std::max<int64_t>(2, 2 * axes.pp) * sizes.data();
  std::vector<std::string> out;
  const auto set = [&](const std::string& key, int64_t value) {
    out.push_back(key + "=" + std::to_string(value));
  };
  set("model.num_layers", std::max<int64_t>(2, axes.pp * section.pipeline.stages_of_rank()));
  set("model.num_heads", heads);
  set("model.hidden_size", 8 * heads);
  set("model.intermediate_size", 16 * axes.tp);
  set("model.vocab_size", 32 * axes.tp);
  if (axes.ep > 1) set("model.moe.num_experts", 2 * axes.ep);
  set("data.train.length", 4 * batch);
  set("train.batch", batch);
  return out;
}

std::unique_ptr<Job> job_of(const std::string& more, const World& world) {
  TestRecipe recipe = recipe_with(more);
  return build_job(std::move(recipe.options), std::move(recipe.resolved), components(), world);
}

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(ExitCode::kOther, message);
}

void test_collectives(const World& world) {
  Communicator& group = *world.mesh.world;
  const auto w = static_cast<size_t>(group.world());
  std::vector<double> numbers(w);
  numbers[static_cast<size_t>(group.rank())] = 0.1 + static_cast<double>(group.rank());
  sum_over_ranks(group, numbers, "self-test");
  for (size_t r = 0; r < w; ++r) {
    require(numbers[r] == 0.1 + static_cast<double>(r), "all_reduce returned a wrong sum");
  }
  const std::vector<std::string> texts = gather_texts(group, std::string(w + numbers.size(), 'x'));
  require(texts.size() == w && texts.back() == texts.front(),
          "all_gather did not return the text of every rank");
  require(broadcast_text(group, std::to_string(group.rank())) == "0",
          "broadcast returned a wrong value");
  require(any_rank(group, group.rank() + 1 == group.world(), "self-test"),
          "any_rank missed a rank");
  group.barrier("self-test");
}

void test_order(const World& world) {
  const auto together = job_of("", world), alone = job_of("", {});
  std::vector<double> seen(100);
  for (int64_t step = 0; step < together->train_loader->steps_per_epoch(); ++step) {
    const GlobalBatch global_batch = together->train_loader->next();
    require(global_batch.digest == alone->train_loader->next().digest,
            "the sample order differs from that of one process");
    for (const HostBatch& batch : global_batch.micro_batches) {
      for (const int64_t id : batch.ids) seen[static_cast<size_t>(id)] += 1;
    }
  }
  sum_over_ranks(*world.mesh.world, seen, "self-test");
  for (const double times : seen)
    require(times == 1, "a sample does not occur exactly once per epoch");
}

/// The loss of the last step.
double last_loss(Job& job) {
  Stopwatch watch;
  double loss = 0;
  for (int64_t step = 1; step <= job.length.total_steps; ++step) {
    job.optimizer->set_lrs(job.optimizer->base_lrs());
    loss = train_step(job, job.train_loader->next(), {.step = step}, watch).loss;
  }
  return loss;
}

/// Trains; returns the last loss, and the weights in `weights`.
double trained(const std::string& more, const World& world, std::vector<at::Tensor>& weights) {
  const auto job = job_of(more, world);
  const double loss = last_loss(*job);
  for (const Parameter& item : job->parameters) weights.push_back(item.local.detach());
  return loss;
}

void test_ranks_agree(const World& world) {
  std::vector<at::Tensor> weights;
  trained("", world, weights);
  for (const at::Tensor& mine : weights) {
    const at::Tensor all = world.mesh.world->all_gather(mine.contiguous(), "self-test");
    for (int64_t rank = 0; rank < world.mesh.world->world(); ++rank) {
      require(all.select(0, rank).equal(mine), "the ranks end with different weights");
    }
  }
}

void test_canonical(const World& world) {
  const std::string canonical = "accelerator: {reduction: canonical}\n";
  std::vector<at::Tensor> together, alone;
  trained(canonical, world, together);
  trained(canonical, {}, alone);
  for (size_t i = 0; i < alone.size(); ++i) {
    require(together[i].equal(alone[i]), "canonical reduction differs from one process");
  }
}

void test_precision(const World& world) {
  for (const char* precision : {"bf16", "fp16"}) {
    std::vector<at::Tensor> weights;
    const double loss =
        trained(std::string("accelerator: {mixed_precision: ") + precision + "}\n", world, weights);
    require(std::isfinite(loss) && loss < 3, text("training in {} fails", precision));
  }
}

using JobMaker = std::function<std::unique_ptr<Job>()>;

/// Runs silently in `dir`, for `stop_after` steps if given.
void run_quietly(const JobMaker& make, const std::string& dir, std::optional<int64_t> stop_after) {
  const auto job = make();
  RunRequest request;
  request.run_dir = dir;
  request.stop_after = stop_after;
  be_silent(true);
  run_job(*job, request);
  be_silent(!job->is_main);
}

void check_resume(const World& world, const JobMaker& make) {
  std::optional<ScratchFolder> scratch;
  if (world.mesh.world->is_main()) scratch.emplace();
  const fs::path dir =
      broadcast_text(*world.mesh.world, scratch ? scratch->path().string() : std::string());
  run_quietly(make, dir / "straight", std::nullopt);
  run_quietly(make, dir / "resumed", 5);
  run_quietly(make, dir / "resumed", std::nullopt);
  world.mesh.world->barrier("self-test");
  if (!scratch) return;
  const auto found =
      first_difference(dir / "straight" / "metrics.jsonl", dir / "resumed" / "metrics.jsonl");
  require(!found, text("a resumed run differs from the straight run: {}", found.value_or("")));
}

void test_checkpoint(const World& world) {
  check_resume(world, [&] { return job_of("checkpoint: {every: 4 steps}\n", world); });
}

/// A small recipe on the mesh of a config, and the same in one process.
class MeshTest {
 public:
  MeshTest(const std::string& config, const AcceleratorSection& section, int64_t ranks)
      : overrides_(mesh_overrides(section, ranks)), config_(config) {}

  LoadedRecipe recipe() const { return with_config(overrides_, config_); }

  void check_loss(const World& world) const {
    const double together = last_loss(*job(world));
    LoadedRecipe recipe = with_config(overrides_, "");
    const RecipeOptions configured = this->recipe().options;
    recipe.options.accelerator.mixed_precision = configured.accelerator.mixed_precision;
    recipe.options.accelerator.fp8 = configured.accelerator.fp8;
    recipe.options.train.max_grad_norm = configured.train.max_grad_norm;
    const auto alone =
        build_job(std::move(recipe.options), std::move(recipe.resolved), components(), {});
    const double wanted = last_loss(*alone);
    const bool exact = alone->recipe.accelerator.mixed_precision == MixedPrecision::kNo;
    const double far = std::abs(together - wanted) / std::abs(wanted);
    require(far <= (exact ? 1e-4 : 5e-2), "the mesh has other losses than one process");
  }
  void check_checkpoints(const World& world) const {
    check_resume(world, [&] { return job(world); });
  }

 private:
  std::unique_ptr<Job> job(const World& world) const { return build_training_job(recipe(), world); }

  std::vector<std::string> overrides_;
  std::string config_;
};

/// The config's section alone, and its test.
MeshTest mesh_test(const std::string& config) {
  const AcceleratorSection section = with_config({}, config).options.accelerator;
  return {config, section, section.num_processes.value_or(1)};
}

std::optional<ExitCode> launch_test(const TestArguments& arguments, bool json,
                                    const std::vector<std::string>& argv) {
  AcceleratorSection section;
  if (arguments.config.empty()) {
    section.num_processes.value = arguments.processes.value_or(kTestProcesses);
  } else {
    const LoadedRecipe recipe = mesh_test(arguments.config).recipe();
    section = recipe.options.accelerator;
    if (wants_ranks(section)) check_ranks(recipe.options, recipe.resolved);
  }
  section.timeout.value = 60;
  if (!wants_ranks(section)) return std::nullopt;
  return launch_ranks(section, {argv, "", json});
}

void run_test(const char* name, const std::function<void()>& test) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  test();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  say(text("  ok  {} ({} ms)", name, std::llround(seconds * 1e3)));
}

/// Joins the ranks with the recipe that all of them have.
World join_for_test(const TestArguments& arguments, RankSession& session) {
  if (!arguments.config.empty()) {
    const LoadedRecipe recipe = mesh_test(arguments.config).recipe();
    return session.world(recipe.options, recipe.resolved);
  }
  const TestRecipe recipe = recipe_with("");
  return session.world(recipe.options, recipe.resolved);
}

ExitCode test_verb(const TestArguments& arguments, RankSession& session) {
  const World of_mesh = join_for_test(arguments, session);
  World world = of_mesh;
  world.mesh = data_parallel_mesh(of_mesh.mesh.world);
  constexpr std::pair<const char*, void (*)(const World&)> kTests[] = {
      {"collectives", &test_collectives},
      {"sample order", &test_order},
      {"same weights on all ranks", &test_ranks_agree},
      {"canonical reduction equals one process", &test_canonical},
      {"mixed precision", &test_precision},
      {"checkpoint and resume", &test_checkpoint}};
  const int64_t processes = world.mesh.world->world();
  say(text("testing {} {}", processes, processes == 1 ? "process" : "processes"));
  for (const auto& [name, test] : kTests) {
    // Its sums are of 1, 2, 4, 8, ... ranks.
    if (test == &test_canonical && !std::has_single_bit(static_cast<uint64_t>(processes))) continue;
    run_test(name, [&world, run = test] { run(world); });
  }
  if (!arguments.config.empty()) {
    const MeshTest test = mesh_test(arguments.config);
    const AcceleratorSection section = test.recipe().options.accelerator;
    const std::string mesh = mesh_text(sizes_of_mesh(section, processes));
    say(text("testing the mesh of '{}': {}", arguments.config, mesh.empty() ? "1" : mesh));
    run_test("loss of one process", [&] { test.check_loss(of_mesh); });
    run_test("checkpoint and resume on the mesh", [&] { test.check_checkpoints(of_mesh); });
  }
  say("this machine is ready");
  return ExitCode::kDone;
}

}  // namespace

void add_test_verb(VerbTable& verbs) {
  const auto to = std::make_shared<TestArguments>();
  CLI::App& verb = verbs.add(
      "test", "check that this machine can train with several processes",
      verbs.training({[to, &verbs] { return launch_test(*to, verbs.json(), verbs.argv()); },
                      [to](RankSession& session) { return test_verb(*to, session); }}));
  CLI::Option* const config = verb.add_option(
      "--config,--config_file,--config-file", to->config,
      "a config, whose processes and mesh are tested: an Accelerate config, or a file as in "
      "configs/");
  verb.add_option("--num_processes,--num-processes", to->processes, "1, 2, 4 or 8; default: 2")
      ->check(CLI::IsMember({1, 2, 4, 8}))
      ->excludes(config);
}

}  // namespace accel
