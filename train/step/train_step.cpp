#include "train/step/train_step.h"

#include "core/base/text.h"
#include "parallel/operations.h"
#include "train/step/device_batches.h"
#include "train/step/step_readback.h"
#include "train/step/train_step_context.h"

namespace accel {
namespace {

/// The header of a step as all ranks have it after all_reduce_step_header().
struct SharedHeader {
  bool stop = false;
  bool all_saved = false;
  double seconds = 0;
  RankNumbers computed;
  MicroBatchWeights weights;
};

/// One all-reduce of [weight of each micro-batch..., stop, saved, seconds of rank 0, computed of
/// each rank...]: each entry is one rank's, zero elsewhere, or a count of ranks, and so comes out
/// exact.
SharedHeader all_reduce_step_header(Job& job, const StepInputs& inputs,
                                    const std::vector<Batch>& batches) {
  const auto count = static_cast<size_t>(inputs.global_batch.num_micro_batches);
  const auto ranks = static_cast<size_t>(job.num_ranks);
  RankNumbers numbers(count + 3 + ranks);
  for (size_t i = 0; i < batches.size(); ++i) {
    const HostBatch& host = inputs.global_batch.micro_batches[i];
    const bool counts = host.valid() > 0 || !fills_idle_ranks(job);
    numbers[static_cast<size_t>(host.micro_batch_index)] =
        counts && job.mesh.leads() ? job.task->weight(batches[i]) : 0;
  }
  numbers[count] = inputs.header.stop ? 1 : 0;
  numbers[count + 1] = inputs.header.saved ? 1 : 0;
  numbers[count + 2] = job.is_main ? inputs.header.seconds : 0;
  numbers[count + 3 + static_cast<size_t>(job.rank)] = inputs.header.computed;
  sum_over_ranks(*job.mesh.world, numbers, "weights");
  SharedHeader shared;
  shared.stop = numbers[count] > 0;
  shared.all_saved = numbers[count + 1] == static_cast<double>(job.num_ranks);
  shared.seconds = numbers[count + 2];
  shared.computed.append(numbers.end() - static_cast<ptrdiff_t>(ranks), numbers.end());
  numbers.resize(count);
  for (const double weight : numbers) shared.weights.total += weight;
  shared.weights.weights = std::move(numbers);
  if (shared.weights.total > 0) return shared;
  throw DataError(text("step {}: every target of the batch is masked", inputs.header.step),
                  "check the data or raise 'train.batch'");
}

}  // namespace

StepResult train_step(Job& job, const GlobalBatch& global_batch, const StepHeader& header,
                      Stopwatch& watch, const std::function<void()>& before_update) {
  const StepInputs inputs{global_batch, header, watch, before_update};
  DeviceBatches batches(global_batch, job.device);
  if (fills_idle_ranks(job)) batches.drop_repeated(global_batch);
  const SharedHeader shared = all_reduce_step_header(job, inputs, batches.list());
  watch.lap(Phase::kSync);
  for (const OptimizerBinding& binding : job.optimizers) binding.strategy->broadcast_buffers();
  const UnshardedScope weights(job);
  if (header.readback) header.readback->begin();
  TrainStepContext context(job, inputs, batches.list(), shared.weights);
  const double loss = job.task->step(context);
  return {.loss = loss,
          .grad_norm = context.grad_norm(),
          .pending = context.pending(),
          .updated = context.updated(),
          .stop = shared.stop,
          .all_saved = shared.all_saved,
          .seconds = shared.seconds,
          .computed = shared.computed,
          .logged = context.logged()};
}

}  // namespace accel
