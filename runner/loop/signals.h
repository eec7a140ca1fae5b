// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a request to save and stop.
#pragma once

namespace accel {

/// While one lives, the first such signal only sets a flag; the second ends the process at once, as
/// it would without a handler. SIGPIPE is ignored, so that a closed terminal stops no training.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The signal that arrived, or 0.
  static int received();
};

}  // namespace accel
