// Sends what the trackers of a run have left in its folder.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "track/remote_tracker.h"

namespace accel {

struct FlushOptions {
  MakeTransport transport;
  RetryTimes retry;
  /// Without an accepted entry for this long, the rest stays unsent.
  std::chrono::milliseconds patience{30000};
  Sender::Report warn;
};

/// The entries of a tracker with a server.
struct FlushedOutbox {
  std::string folder;
  bool was_empty = true;  ///< nothing was to send
  std::string unsent;     ///< RemoteTracker::unsent_summary() afterwards
};

/// Sends the outboxes in the run folder, one after the other. Throws DataError for a damaged one,
/// IoError while a run uses it.
std::vector<FlushedOutbox> flush_outboxes(const std::string& run_dir, const FlushOptions& options);

/// What a tracker without a server wrote, and the tracker's own program uploads.
struct OfflineFiles {
  const char* tracker;
  const char* command;  ///< "wandb sync"
  std::string path;
};

/// Those in the run folder, by tracker and path.
std::vector<OfflineFiles> offline_files(const std::string& run_dir);

}  // namespace accel
