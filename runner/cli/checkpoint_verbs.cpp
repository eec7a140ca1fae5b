// checkpoint list, inspect, verify and diff.
#include <filesystem>
#include <iostream>

#include "runner/cli/checkpoint_text.h"
#include "runner/cli/verbs.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

bool is_run(const std::string& path) {
  return fs::is_directory(fs::path(path) / "checkpoints");
}

/// A checkpoint as it was given, or the newest one of a run folder.
std::string checkpoint_at(DiskFiles& files, const std::string& path) {
  if (!fs::is_directory(path)) {
    throw Error(ExitCode::kRecipe, "'" + path + "' is no folder",
                "give a run folder, or one of its checkpoints");
  }
  if (!is_run(path)) return path;
  const auto entries = CheckpointStore(files, path).list();
  if (entries.empty()) throw CheckpointError("'" + path + "' has no checkpoints");
  return entries.back().path;
}

}  // namespace

ExitCode checkpoint_list_verb(const std::string& run) {
  if (!is_run(run)) {
    throw Error(ExitCode::kRecipe, "'" + run + "' is no run folder: it has no 'checkpoints'",
                "give the folder that 'run' printed, such as runs/NAME");
  }
  DiskFiles files;
  std::cout << list_text(CheckpointStore(files, run));
  return ExitCode::kDone;
}

ExitCode checkpoint_inspect_verb(const std::string& path) {
  DiskFiles files;
  const std::string folder = checkpoint_at(files, path);
  const TrainState state = CheckpointStore(files, {}).load(folder);
  std::cout << folder << "\n" << inspect_text(state, files.list(folder));
  return ExitCode::kDone;
}

ExitCode checkpoint_verify_verb(const std::string& path) {
  DiskFiles files;
  const CheckpointStore store(files, path);
  std::vector<std::string> folders;
  if (is_run(path)) {
    for (const CheckpointEntry& entry : store.list()) folders.push_back(entry.path);
  } else {
    folders.push_back(checkpoint_at(files, path));
  }
  ExitCode code = folders.empty() ? ExitCode::kCheckpoint : ExitCode::kDone;
  if (folders.empty()) std::cout << "'" << path << "' has no checkpoints\n";
  for (const std::string& folder : folders) {
    try {
      store.verify(folder);
      std::cout << folder << ": whole\n";
    } catch (const CheckpointError& error) {
      std::cout << error.what() << '\n';
      code = ExitCode::kCheckpoint;
    }
  }
  return code;
}

ExitCode checkpoint_diff_verb(const std::string& first, const std::string& second) {
  DiskFiles files;
  const CheckpointStore store(files, {});
  const auto found = differences(store.load(checkpoint_at(files, first)),
                                 store.load(checkpoint_at(files, second)));
  for (const std::string& line : found) std::cout << line << '\n';
  if (found.empty()) std::cout << "equal to the last bit\n";
  return found.empty() ? ExitCode::kDone : ExitCode::kOther;
}

}  // namespace accel
