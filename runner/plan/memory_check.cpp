#include "runner/plan/memory_check.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/located_error.h"
#include "runner/plan/fake_tensor_mode.h"
#include "runner/plan/number_text.h"
#include "runner/plan/small_data.h"
#include "train/job/torch_setup.h"
#include "train/recipe/model_size.h"

namespace accel {
namespace {

constexpr double kMostSeconds = 2;
constexpr auto kHint =
    "'accel-run plan RECIPE' lists the memory of a rank by purpose, and changes that make it fit";

/// "24 GiB for 2 ranks (of each: weights 4 GiB, ...)".
std::string need_text(const PlannedMemory& memory, int64_t ranks) {
  const std::string parts =
      text("weights {}, gradients {}, optimizer state {}", bytes_text(memory.weights),
           bytes_text(memory.gradients), bytes_text(memory.optimizer));
  if (ranks == 1) return text("{} ({})", bytes_text(memory.state()), parts);
  return text("{} for {} ranks (of each: {})", bytes_text(memory.state() * ranks), ranks, parts);
}

/// The result of plan_state(); neither where the recipe or the data does not fit the model.
struct Planned {
  std::optional<PlannedMemory> memory = {};
  std::optional<AddressSpaceError> refusal = {};  ///< the address space does not suffice
};

Planned plan_within_limits(const RecipeOptions& recipe, const Node& resolved,
                           const Registry& registry, const DataSchema& data, int64_t world) {
  try {
    const FakeTimeLimit limit(kMostSeconds);
    return {plan_state(recipe, resolved, registry, data, world), {}};
  } catch (const AddressSpaceError& error) {
    return {{}, error};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

bool may_exceed(const Node& resolved, const MachineMemory& machine) {
  return machine.available > 0 && may_exceed(resolved, machine.available / machine.ranks);
}

void check_memory(const Job& job, const MachineMemory& machine) {
  if (!job.device.is_cpu() || !may_exceed(job.resolved, machine)) return;
  const int64_t cores = threads();
  const Planned planned =
      plan_within_limits(job.recipe, job.resolved, job.registry,
                         {job.data, job.train_samples, job.eval_samples}, job.batches.world);
  set_threads(cores);
  const std::string what = text("the model '{}' does not fit into memory", job.recipe.model.type);
  const Span where = largest_size(job.resolved, "model");
  // For a single tensor that is too large, its allocation fails and names the bytes.
  const auto available = static_cast<size_t>(machine.available);
  if (planned.refusal && planned.refusal->bytes() < available) {
    // A plan maps as many bytes as training will hold.
    throw LocatedError(ExitCode::kMemory,
                       {where, text("{}: its tensors exceed the address space of a process", what),
                        "raise the limits of 'ulimit -v' and 'ulimit -d', or lower the size of the "
                        "model"});
  }
  if (!planned.memory || planned.memory->state() * machine.ranks <= machine.available) return;
  throw LocatedError(ExitCode::kMemory, {where,
                                         text("{}: training needs {}, and {} are available", what,
                                              need_text(*planned.memory, machine.ranks),
                                              bytes_text(machine.available)),
                                         kHint});
}

std::vector<Diagnostic> memory_warnings(const RecipeOptions& recipe, const Node& resolved,
                                        const Registry& registry, const MachineMemory& machine) {
  const int64_t world = recipe.accelerator.num_processes.value_or(1);
  const Span where = largest_size(resolved, "model");
  const std::string what =
      text("the model '{}' does not fit into this machine's memory", recipe.model.type);
  for (const DataSchema& data : small_data(recipe)) {
    const Planned planned = plan_within_limits(recipe, resolved, registry, data, world);
    if (planned.refusal) {
      return {{where, planned.refusal->what(), planned.refusal->hint(), Severity::kWarning}};
    }
    if (!planned.memory) continue;
    if (planned.memory->state() * machine.ranks <= machine.available) return {};
    return {{where,
             text("{}: training needs at least {}, and {} are available", what,
                  need_text(*planned.memory, machine.ranks), bytes_text(machine.available)),
             kHint, Severity::kWarning}};
  }
  return {};
}

}  // namespace accel
