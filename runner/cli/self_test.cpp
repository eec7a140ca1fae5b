// test: checks in a few seconds that this machine can train with several processes.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/operations.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/cli/world.h"
#include "track/record.h"
#include "train/job/build_job.h"
#include "train/loop/run.h"
#include "train/step/train_step.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kSelfTestRecipe =
    "model: {type: mlp, hidden_sizes: [16], dropout: 0.1}\n"
    "data: {train: {type: synthetic/glyphs, length: 100}, loader: {workers: 0}}\n"
    "optimizer: {type: adamw, lr: 0.01}\n"
    "train: {until: 12 steps, batch: 16, micro_batch: 2}\n";

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

/// Trains; returns the last loss, and the weights in `weights`.
double trained(const std::string& more, const World& world, std::vector<at::Tensor>& weights) {
  const auto job = job_of(more, world);
  Stopwatch watch;
  double loss = 0;
  for (int64_t step = 1; step <= job->length.total_steps; ++step) {
    job->optimizer->set_lrs(job->optimizer->base_lrs());
    loss = train_step(*job, job->train_loader->next(), {.step = step}, watch).loss;
  }
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

/// Runs silently in `dir`, for `stop_after` steps if given.
void run_quietly(const World& world, const std::string& dir, std::optional<int64_t> stop_after) {
  const auto job = job_of("checkpoint: {every: 4 steps}\n", world);
  RunRequest request;
  request.run_dir = dir;
  request.stop_after = stop_after;
  be_silent(true);
  run_job(*job, request);
  be_silent(!world.mesh.world->is_main());
}

void test_checkpoint(const World& world) {
  std::optional<ScratchFolder> scratch;
  if (world.mesh.world->is_main()) scratch.emplace();
  const fs::path dir =
      broadcast_text(*world.mesh.world, scratch ? scratch->path().string() : std::string());
  run_quietly(world, dir / "straight", std::nullopt);
  run_quietly(world, dir / "resumed", 5);
  run_quietly(world, dir / "resumed", std::nullopt);
  world.mesh.world->barrier("self-test");
  if (!scratch) return;
  const auto found =
      first_difference(dir / "straight" / "metrics.jsonl", dir / "resumed" / "metrics.jsonl");
  require(!found, text("a resumed run differs from the straight run: {}", found.value_or("")));
}

std::optional<ExitCode> launch_test(int64_t processes, bool json,
                                    const std::vector<std::string>& argv) {
  AcceleratorSection section;
  section.num_processes.value = processes;
  section.timeout.value = 60;
  if (!wants_ranks(section)) return std::nullopt;
  return launch_ranks(section, {argv, "", json});
}

ExitCode test_verb(RankSession& session) {
  using Clock = std::chrono::steady_clock;
  const TestRecipe recipe = recipe_with("");
  const World world = session.world(recipe.options, recipe.resolved);
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
    const auto start = Clock::now();
    test(world);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    say(text("  ok  {} ({} ms)", name, std::llround(seconds * 1e3)));
  }
  say("this machine is ready");
  return ExitCode::kDone;
}

}  // namespace

void add_test_verb(VerbTable& verbs) {
  const auto processes = std::make_shared<int64_t>(2);
  CLI::App& verb = verbs.add(
      "test", "check that this machine can train with several processes",
      verbs.training(
          {[processes, &verbs] { return launch_test(*processes, verbs.json(), verbs.argv()); },
           [](RankSession& session) { return test_verb(session); }}));
  verb.add_option("--num_processes,--num-processes", *processes, "1, 2, 4 or 8; default: 2")
      ->check(CLI::IsMember({1, 2, 4, 8}));
}

}  // namespace accel
