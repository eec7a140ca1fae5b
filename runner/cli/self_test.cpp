// test: whether this machine can train with several processes, told in a few seconds.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "core/log.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/cli/verbs.h"
#include "runner/cli/world.h"
#include "runner/dist/operations.h"
#include "runner/loop/run.h"
#include "runner/loop/train_step.h"
#include "runner/track/record_diff.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kRecipe =
    "model: {type: mlp, hidden: [16], dropout: 0.1}\n"
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
  const Node tree = parse_recipe("self-test.yaml", kRecipe + more);
  TestRecipe recipe{read_recipe(tree, "self-test", reading), {}};
  recipe.resolved = resolve_recipe(recipe.options, tree);
  return recipe;
}

std::unique_ptr<Job> job_of(const std::string& more, const World& world) {
  TestRecipe recipe = recipe_with(more);
  return build_job(std::move(recipe.options), std::move(recipe.resolved), components(), world);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(ExitCode::kOther, what);
}

void test_collectives(const World& world) {
  Communicator& group = *world.group;
  const auto w = static_cast<size_t>(group.world());
  std::vector<double> numbers(w);
  numbers[static_cast<size_t>(group.rank())] = 0.1 + static_cast<double>(group.rank());
  sum_over_ranks(group, numbers, "self-test");
  for (size_t r = 0; r < w; ++r) {
    require(numbers[r] == 0.1 + static_cast<double>(r), "a sum over the ranks is wrong");
  }
  const std::vector<std::string> texts = gather_texts(group, std::string(w + numbers.size(), 'x'));
  require(texts.size() == w && texts.back() == texts.front(), "texts of ranks are not gathered");
  require(broadcast_text(group, std::to_string(group.rank())) == "0", "a broadcast is wrong");
  require(any_rank(group, group.rank() + 1 == group.world(), "self-test"), "a trigger is lost");
  group.barrier("self-test");
}

void test_order(const World& world) {
  const auto together = job_of("", world), alone = job_of("", {});
  std::vector<double> seen(100);
  for (int64_t step = 0; step < together->train_loader->steps_per_epoch(); ++step) {
    const Window window = together->train_loader->next();
    require(window.digest == alone->train_loader->next().digest,
            "the samples come in another order than in one process");
    for (const HostBatch& batch : window.micro_batches) {
      for (const int64_t id : batch.ids) seen[static_cast<size_t>(id)] += 1;
    }
  }
  sum_over_ranks(*world.group, seen, "self-test");
  for (const double times : seen) require(times == 1, "a sample does not come once in an epoch");
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
  for (const NamedTensor& item : job->parameters) weights.push_back(item.tensor.detach());
  return loss;
}

void test_ranks_agree(const World& world) {
  std::vector<at::Tensor> weights;
  trained("", world, weights);
  for (const at::Tensor& mine : weights) {
    const at::Tensor all = world.group->all_gather(mine.contiguous(), "self-test");
    for (int64_t rank = 0; rank < world.group->world(); ++rank) {
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
    require(together[i].equal(alone[i]), "a canonical reduction gives other bits than one process");
  }
}

void test_precision(const World& world) {
  for (const char* precision : {"bf16", "fp16"}) {
    std::vector<at::Tensor> weights;
    const double loss =
        trained(std::string("accelerator: {mixed_precision: ") + precision + "}\n", world, weights);
    require(std::isfinite(loss) && loss < 3, std::string("training in ") + precision + " fails");
  }
}

/// Runs in `dir` without a word; `stop_after` steps if given.
void run_quietly(const World& world, const std::string& dir, std::optional<int64_t> stop_after) {
  const auto job = job_of("checkpoint: {every: 4 steps}\n", world);
  RunRequest request;
  request.run_dir = dir;
  request.stop_after = stop_after;
  be_silent(true);
  run_job(*job, request);
  be_silent(!world.group->is_main());
}

void test_checkpoint(const World& world) {
  std::optional<ScratchFolder> scratch;
  if (world.group->is_main()) scratch.emplace();
  const fs::path dir =
      broadcast_text(*world.group, scratch ? scratch->path().string() : std::string());
  run_quietly(world, dir / "straight", std::nullopt);
  run_quietly(world, dir / "resumed", 5);
  run_quietly(world, dir / "resumed", std::nullopt);
  world.group->barrier("self-test");
  if (!scratch) return;
  const auto found =
      first_difference(dir / "straight" / "metrics.jsonl", dir / "resumed" / "metrics.jsonl");
  require(!found, "a resumed run is not the run it would have been: " + found.value_or(""));
}

}  // namespace

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
      {"order of samples", &test_order},
      {"same weights on all ranks", &test_ranks_agree},
      {"canonical: same bits as one process", &test_canonical},
      {"mixed precision", &test_precision},
      {"checkpoint and resume", &test_checkpoint}};
  say("testing " + std::to_string(world.group->world()) +
      (world.group->world() == 1 ? " process" : " processes"));
  for (const auto& [name, test] : kTests) {
    const auto start = Clock::now();
    test(world);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    say("  ok  " + std::string(name) + " (" + std::to_string(std::llround(seconds * 1e3)) + " ms)");
  }
  say("this machine is ready");
  return ExitCode::kDone;
}

}  // namespace accel
