// The processes of a run: this one starts them, is one of them, or is alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "runner/job/job.h"

namespace accel {

/// Whether a launcher started this process as one of several ranks. Throws Error when what it says
/// makes no sense.
bool is_rank();

/// Whether the recipe wants more processes than this one and nobody has started them yet.
bool wants_ranks(const AcceleratorSection& section);

/// Throws RecipeError when the ranks there are, or will be, cannot do what the recipe asks.
void check_ranks(const RecipeOptions& recipe, const Node& resolved);

struct RanksOrder {
  std::vector<std::string> argv;  ///< the command line of each
  std::string run_dir;            ///< the run's folder
  bool json = false;              ///< tell how they failed as JSON
};

/// Starts this machine's ranks and returns how they ended. Throws Error before any is started.
ExitCode launch_ranks(const AcceleratorSection& section, const RanksOrder& order);

/// This process's tie to the other ranks; alone it has none. One for the life of the process, made
/// where libtorch is there.
class RankSession {
 public:
  RankSession();
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  /// Meets the other ranks, on the first call; all must have the same recipe. A rank other than the
  /// first is silent from then on. Throws Error.
  World world(const RecipeOptions& recipe, const Node& resolved);

  /// Runs `body`. What it throws is left to the launcher to tell, where there is one, as JSON if
  /// `json`.
  ExitCode guarded(bool json, const std::function<ExitCode()>& body);

 private:
  struct Ties;
  std::unique_ptr<Ties> ties_;  ///< null when this process is alone
};

}  // namespace accel
