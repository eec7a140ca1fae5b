// Runs of a recipe in a folder that does not stay: what `smoke` and `verify-resume` are made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runner/cli/verbs.h"

namespace accel {

/// A folder of its own that goes when it does.
class ScratchFolder {
 public:
  /// Throws IoError.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Builds the job anew, as another process would, and runs it in the run folder `dir`, until after
/// `stop_after` steps if given. Throws what ended it.
struct TrialEnd {
  int64_t steps = 0;  ///< planned
  ExitCode code = ExitCode::kDone;
};
TrialEnd run_trial(const RecipeArguments& arguments, const std::filesystem::path& dir,
                   std::optional<int64_t> stop_after = std::nullopt);

}  // namespace accel
