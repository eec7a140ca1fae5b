#include "data/loader/shard.h"

#include <algorithm>

namespace accel {
namespace {

int64_t rounded_up(int64_t count, int64_t parts) {
  return (count + parts - 1) / parts;
}

int64_t full_round(const ShardPlan& plan) {
  return plan.micro_batch * plan.world;
}

void split_evenly(Round& round, int64_t world) {
  round.width = rounded_up(round.valid, world);
  round.wide = round.valid % world;
  round.batches = std::min(round.valid, world);
}

}  // namespace

int64_t rounds_of(const ShardPlan& plan) {
  return plan.drop_last ? plan.samples / full_round(plan)
                        : rounded_up(plan.samples, full_round(plan));
}

Round round_of(const ShardPlan& plan, int64_t index) {
  const int64_t full = full_round(plan);
  Round round{.first = index * full, .valid = full, .width = plan.micro_batch};
  round.batches = plan.world;
  if (plan.samples - round.first >= full) return round;
  round.valid = plan.samples - round.first;
  if (plan.sharing == Sharing::kSlices) round.width = rounded_up(round.valid, plan.world);
  if (plan.even_batches) {
    round.padded = round.width * plan.world - round.valid;
  } else {
    round.batches = rounded_up(round.valid, round.width);
    if (plan.all_ranks && round.batches < plan.world) split_evenly(round, plan.world);
  }
  return round;
}

Share share_of(const ShardPlan& plan, int64_t index, int64_t rank) {
  const Round round = round_of(plan, index);
  const int64_t narrow = round.wide > 0 ? std::max<int64_t>(rank - round.wide, 0) : 0;
  const int64_t before = rank * round.width - narrow;
  const int64_t width = round.width - (round.wide > 0 && rank >= round.wide ? 1 : 0);
  const int64_t valid = std::clamp<int64_t>(round.valid - before, 0, width);
  return {.first = round.first + before,
          .size = plan.even_batches ? round.width : valid,
          .valid = valid};
}

int64_t batches_of(const ShardPlan& plan, int64_t rank) {
  const int64_t rounds = rounds_of(plan);
  if (rounds == 0) return 0;
  return rank < round_of(plan, rounds - 1).batches ? rounds : rounds - 1;
}

}  // namespace accel
