// The two ends of the mlflow tracker: a folder, or a server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/tracker.h"
#include "runner/track/uplink.h"

namespace accel {

struct MlflowRun {
  std::string experiment;
  std::string name;
  std::string user;
  int64_t start_ms = 0;
  std::map<std::string, std::string> tags;
};

/// What MLflow has places for. Keys are mlflow_key()s.
class MlflowSink {
 public:
  virtual ~MlflowSink() = default;

  virtual void param(int64_t step, const std::string& key, const std::string& value) = 0;
  virtual void metrics(int64_t step, int64_t time_ms, std::span<const Measurement> values) = 0;
  virtual void tag(int64_t step, const std::string& key, const std::string& value) = 0;
  /// `path` lies below the run's artifacts.
  virtual void artifact(int64_t step, const std::string& path, std::string_view bytes) = 0;
  virtual void flush(Flush how) = 0;
  virtual void end(RunStatus status, int64_t time_ms) = 0;
  virtual std::map<std::string, std::string> ids() const = 0;
  /// Null for a folder.
  virtual Uplink* uplink() = 0;
};

/// A name that MLflow takes: a path of letters, digits and "_-.: ", at most 250 characters.
std::string mlflow_key(std::string_view name);

/// Runs below `folder`, as MLflow's file store has them.
std::unique_ptr<MlflowSink> make_mlflow_files(const std::string& folder, const MlflowRun& run,
                                              const TrackerContext& context);

/// A server and what it wants to know of who asks.
struct MlflowServerAddress {
  std::string url;            ///< "http://host:5000", no slash at the end
  std::string authorization;  ///< a header's value; empty: none
};

/// Runs on an MLflow server. `folder` keeps what is on its way; of a second one that is made for
/// the same while the first is there, `folder`-2.
std::unique_ptr<MlflowSink> make_mlflow_server(const MlflowServerAddress& address,
                                               const std::string& folder, const MlflowRun& run,
                                               const TrackerContext& context);

}  // namespace accel
