// Destinations of the mlflow tracker: a file store or a server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/api/tracker.h"
#include "track/remote_tracker.h"

namespace accel {

struct MlflowRun {
  std::string experiment;
  std::string name;
  std::string user;
  int64_t start_ms = 0;
  std::map<std::string, std::string> tags;
};

/// MLflow's entities of a run. Keys are mlflow_key()s.
class MlflowSink {
 public:
  virtual ~MlflowSink() = default;

  virtual void param(int64_t step, const std::string& key, const std::string& value) = 0;
  virtual void metrics(int64_t step, int64_t time_ms, std::span<const Measurement> values) = 0;
  virtual void tag(int64_t step, const std::string& key, const std::string& value) = 0;
  /// `path` is relative to the run's artifact root.
  virtual void artifact(int64_t step, const std::string& path, std::string_view bytes) = 0;
  virtual void flush(Flush how) = 0;
  virtual void end(RunStatus status, int64_t time_ms) = 0;
  virtual std::map<std::string, std::string> ids() const = 0;
  /// Null for a file store.
  virtual RemoteTracker* remote() = 0;
};

/// A valid MLflow key: a path of letters, digits and "_-.: ", at most 250 characters. Other
/// characters become '_', and a name with such or longer ones ends with 8 digits of its checksum,
/// so that different names have different keys.
std::string mlflow_key(std::string_view name);

/// A run in MLflow's file store `folder`.
std::unique_ptr<MlflowSink> make_mlflow_files(const std::string& folder, const MlflowRun& run,
                                              const TrackerContext& context);

/// A server and its credentials.
struct MlflowServerAddress {
  std::string url;            ///< "http://host:5000", without a trailing slash
  std::string authorization;  ///< header value; empty: none
};

/// A run on an MLflow server. `folder` has the outbox; a second tracker with the same folder uses
/// `folder`-2.
std::unique_ptr<MlflowSink> make_mlflow_server(const MlflowServerAddress& address,
                                               const std::string& folder, const MlflowRun& run,
                                               const TrackerContext& context);

/// Sends the entries that a process of a run has left in `folder`. Null for a folder without them.
/// Throws DataError for a damaged one, IoError while a run uses it.
std::unique_ptr<RemoteTracker> open_mlflow_outbox(const std::string& folder);

/// The `Authorization` header by the environment variables of MLflow's client; none: "".
std::string mlflow_authorization();

}  // namespace accel
