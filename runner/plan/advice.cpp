#include "runner/plan/advice.h"

namespace accel {
namespace {

constexpr size_t kMostAdvice = 3;

class Candidates {
 public:
  void add(std::string override_text, const char* price) {
    Advice& advice = all_.emplace_back();
    advice.overrides.push_back(std::move(override_text));
    advice.price = price;
  }
  std::vector<Advice> take() { return std::move(all_); }

 private:
  std::vector<Advice> all_;
};

/// What can be changed, with what it costs, the cheapest first.
std::vector<Advice> candidates(const RecipeOptions& recipe, const Plan& plan) {
  Candidates all;
  if (plan.memory.copy > 0) {
    all.add("checkpoint.async=false", "training waits while a checkpoint is written");
  }
  if (recipe.data.loader.workers > 0 && recipe.data.loader.prefetch > 1) {
    all.add("data.loader.prefetch=1", "training may wait for samples");
  }
  // Of a fixed number of accumulated micro-batches their size follows.
  const bool by_number = recipe.train.gradient_accumulation_steps && !recipe.train.micro_batch;
  const int64_t share = plan.batches.micro_batch * plan.batches.accumulation;
  for (int64_t size = plan.batches.micro_batch / 2; size > 0; size /= 2) {
    if (share % size != 0) continue;
    all.add(by_number ? "train.gradient_accumulation_steps=" + std::to_string(share / size)
                      : "train.micro_batch=" + std::to_string(size),
            "the batch goes through in more, smaller passes");
  }
  if (recipe.accelerator.mixed_precision == MixedPrecision::kNo) {
    all.add("accelerator.mixed_precision=bf16", "passes compute less exactly");
  }
  if (recipe.optimizer.type != "adafactor") {
    all.add("optimizer.type=adafactor", "its updates differ: tune the learning rate anew");
  }
  return all.take();
}

/// Of the same key as what is there, and costing more.
bool is_more_of(const Advice& advice, const std::vector<Advice>& present) {
  return !present.empty() && present.back().price == advice.price;
}

}  // namespace

std::vector<Advice> advise(const RecipeOptions& recipe, const Plan& plan, int64_t process,
                           int64_t bytes, const Replan& replan) {
  std::vector<Advice> good;
  Advice joined;
  for (Advice& advice : candidates(recipe, plan)) {
    if (good.size() == kMostAdvice) break;
    if (is_more_of(advice, good)) continue;
    const std::optional<Plan> then = replan(advice.overrides);
    if (!then || then->memory.total() >= plan.memory.total()) continue;
    advice.bytes = process + then->memory.total();
    if (advice.bytes <= bytes) {
      good.push_back(std::move(advice));
    } else if (good.empty()) {
      // Behind another size of micro-batches, the later one counts.
      joined.overrides.insert(joined.overrides.end(), advice.overrides.begin(),
                              advice.overrides.end());
      joined.price += (joined.price.empty() || joined.price.ends_with(advice.price) ? "" : "; ");
      if (!joined.price.ends_with(advice.price)) joined.price += advice.price;
    }
  }
  if (!good.empty() || joined.overrides.empty()) return good;
  const std::optional<Plan> then = replan(joined.overrides);
  if (!then || process + then->memory.total() > bytes) return {};
  joined.bytes = process + then->memory.total();
  return {joined};
}

}  // namespace accel
