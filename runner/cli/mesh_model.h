// `--mesh` of evaluate, predict and generate: a checkpoint's model on the ranks of its run's mesh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/trained_model.h"
#include "runner/cli/cli.h"
#include "runner/cli/world.h"
#include "train/job/job.h"

namespace accel {

struct MeshArguments {
  bool mesh = false;
  std::vector<std::string> overrides;  ///< of the run's recipe
};

void add_mesh(CLI::App& verb, MeshArguments& to);

/// Throws Error for overrides without `--mesh`.
void check_overrides(const MeshArguments& arguments);

/// Starts the ranks of the recipe of `source`, a run folder or one of its checkpoints; nothing in a
/// rank, or for a recipe of one process.
std::optional<ExitCode> launch_mesh(const std::string& source, const MeshArguments& arguments,
                                    const VerbTable& verbs);

/// A job with the weights of the checkpoint, and what load_trained() returns besides the model. All
/// ranks build it.
struct MeshModel {
  TrainedModel trained;
  std::unique_ptr<Job> job;
};
MeshModel load_mesh_model(const std::string& source, const MeshArguments& arguments,
                          RankSession& session);

/// A verb with `--mesh`: `on_ranks` runs in each rank, `alone` without it.
template <class Arguments>
VerbTable::Run on_mesh(const VerbTable& verbs, const std::shared_ptr<Arguments>& to,
                       ExitCode (*alone)(const Arguments&),
                       ExitCode (*on_ranks)(const Arguments&, RankSession&)) {
  const auto in_process = verbs.with_torch([to, alone] { return alone(*to); });
  const auto ranks =
      verbs.training({[to, &verbs] { return launch_mesh(to->source, to->mesh, verbs); },
                      [to, on_ranks](RankSession& session) { return on_ranks(*to, session); }});
  return [to, in_process, ranks] {
    check_overrides(to->mesh);
    return to->mesh.mesh ? ranks() : in_process();
  };
}

}  // namespace accel
