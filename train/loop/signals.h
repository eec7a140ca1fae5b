// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a request to save and stop.
#pragma once

namespace accel {

/// During its lifetime the first such signal only sets a flag; the second ends the process, as
/// without a handler. After its lifetime these signals are ignored: create it when the process
/// starts and destroy it just before exit. SIGPIPE is ignored, so that a closed terminal does not
/// stop training.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Blocks the signals until a SignalWatch exists, also across exec.
  static void hold();
  /// The signal that arrived, or 0.
  static int received();
};

}  // namespace accel
