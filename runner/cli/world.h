// The processes of a run: launching ranks, and this process as one of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "train/job/job.h"

namespace accel {

/// Whether a launcher started this process as one of several ranks. Throws Error when its
/// environment variables are inconsistent.
bool is_rank();

/// Whether the recipe needs several ranks and this process is not one of them.
bool wants_ranks(const AcceleratorSection& section);

/// Throws RecipeError when the recipe cannot run on its number of ranks.
void check_ranks(const RecipeOptions& recipe, const Node& resolved);

struct RanksRequest {
  std::vector<std::string> argv;  ///< the command line of each rank
  std::string run_dir;            ///< the run's folder; empty: none
  bool json = false;              ///< report failures as JSON
};

/// Starts this machine's ranks and returns their exit code. Throws Error before any is started.
ExitCode launch_ranks(const AcceleratorSection& section, const RanksRequest& request);

/// This process's connection to the other ranks, if any. One per process; needs libtorch.
class RankSession {
 public:
  RankSession();
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  /// Joins the other ranks on the first call; all must have the same recipe. Ranks other than 0
  /// are silent from then on. Throws Error.
  World world(const RecipeOptions& recipe, const Node& resolved);

  /// Runs `body`. Its exceptions are reported through the launcher if there is one, as JSON if
  /// `json`.
  ExitCode guarded(bool json, const std::function<ExitCode()>& body);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;  ///< null in a single process
};

}  // namespace accel
