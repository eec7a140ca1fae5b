#include "track/flush.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/base/glob.h"
#include "track/mlflow_sink.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Clock = Sender::Clock;

/// Entries of the folder whose names match `pattern`, sorted.
std::vector<std::string> entries_of(const fs::path& folder, const std::string& pattern) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (name_matches(pattern, entry.path().filename().string()))
      out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

FlushedOutbox flush_outbox(const std::string& folder, RemoteTracker& remote,
                           const FlushOptions& options) {
  FlushedOutbox out{folder, !remote.pending(), ""};
  Sender sender(options.transport, options.retry, options.warn);
  if (!out.was_empty) sender.add("mlflow", remote);
  std::string before = remote.unsent_summary();
  Clock::time_point progress = Clock::now();
  constexpr std::chrono::milliseconds kLook{100};
  while (sender.busy_before(progress + options.patience)) {
    sender.poll(kLook);
    if (std::string now = remote.unsent_summary(); now != before) {
      before = std::move(now);
      progress = Clock::now();
    }
  }
  out.unsent = before;
  return out;
}

}  // namespace

std::vector<FlushedOutbox> flush_outboxes(const std::string& run_dir, const FlushOptions& options) {
  std::vector<FlushedOutbox> out;
  for (const std::string& folder : entries_of(run_dir, "mlflow*")) {
    const std::unique_ptr<RemoteTracker> remote = open_mlflow_outbox(folder);
    if (remote) out.push_back(flush_outbox(folder, *remote, options));
  }
  return out;
}

std::vector<OfflineFiles> offline_files(const std::string& run_dir) {
  struct Kind {
    const char *tracker, *folder, *pattern, *command;
  };
  static constexpr Kind kKinds[] = {
      {"clearml", "clearml", "offline-*.zip", "clearml.Task.import_offline_session"},
      {"comet", "comet", "*.zip", "comet upload"},
      {"swanlab", "swanlog", "run-*", "swanlab sync"},
      {"wandb", "wandb", "offline-run-*", "wandb sync"}};
  std::vector<OfflineFiles> out;
  for (const Kind& kind : kKinds) {
    for (std::string& path : entries_of(fs::path(run_dir) / kind.folder, kind.pattern)) {
      out.push_back({kind.tracker, kind.command, std::move(path)});
    }
  }
  return out;
}

}  // namespace accel
