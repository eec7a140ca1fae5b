#include "runner/loop/train_step.h"

#include "runner/dist/operations.h"
#include "runner/loop/step_run.h"
#include "runner/loop/to_batch.h"

namespace accel {
namespace {

/// Each rank writes the weights of its own parts; all that nobody else writes comes out exact.
/// Fills in what `result` has of the others.
SharedWindow tell_each_other(Job& job, const StepWork& work, const std::vector<Batch>& batches,
                             StepResult& result) {
  const auto parts = static_cast<size_t>(work.window.parts);
  const auto world = static_cast<size_t>(job.group->world());
  RankNumbers numbers(parts + 2 + world);
  for (size_t i = 0; i < batches.size(); ++i) {
    numbers[static_cast<size_t>(work.window.micro_batches[i].part)] = job.task->weight(batches[i]);
  }
  numbers[parts] = work.ask.stop ? 1 : 0;
  numbers[parts + 1] = job.group->is_main() ? work.ask.seconds : 0;
  numbers[parts + 2 + static_cast<size_t>(job.group->rank())] = work.ask.computed;
  sum_over_ranks(*job.group, numbers, "weights");
  result.computed.append(numbers.end() - static_cast<ptrdiff_t>(world), numbers.end());
  result.stop = numbers[parts] > 0;
  result.seconds = numbers[parts + 1];
  SharedWindow shared;
  numbers.resize(parts);
  for (const double weight : numbers) shared.total += weight;
  shared.weights = std::move(numbers);
  if (shared.total <= 0) {
    throw DataError(
        "step " + std::to_string(work.ask.step) + ": nothing in the batch carries a loss",
        "every target is masked: look at the data or raise 'train.batch'");
  }
  return shared;
}

}  // namespace

OutOfMemory::OutOfMemory(int64_t micro_batch)
    : Error(ExitCode::kMemory,
            "a micro-batch of " + std::to_string(micro_batch) +
                (micro_batch == 1 ? " sample" : " samples") + " does not fit into memory",
            "make the model or the samples smaller") {}

StepResult train_step(Job& job, const Window& window, const StepAsk& ask, Stopwatch& watch,
                      const std::function<void()>& before_update) {
  const StepWork work{window, ask, watch, before_update};
  const WindowBatches tensors(window, job.device);
  const std::vector<Batch>& batches = tensors.list();
  StepResult result;
  const SharedWindow shared = tell_each_other(job, work, batches, result);
  watch.lap(Phase::kSync);
  for (const TrainedPart& part : job.trained) part.strategy->share_buffers();
  StepRun run(job, work, batches, shared);
  result.loss = job.task->step(run);
  result.grad_norm = run.grad_norm();
  result.updated = run.updated();
  result.logged = run.logged();
  return result;
}

}  // namespace accel
