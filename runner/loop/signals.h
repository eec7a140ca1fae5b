// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a request to save and stop.
#pragma once

namespace accel {

/// While one lives, the first such signal only sets a flag; the second ends the process at once, as
/// it would without a handler. After it the outcome is known, and signals no longer change it: make
/// one when the process starts and let it go when there is nothing left but to exit. SIGPIPE is
/// ignored, so that a closed terminal stops no training.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Keeps signals waiting until a watch is there, in a program that this one becomes by exec too.
  static void hold();
  /// The signal that arrived, or 0.
  static int received();
};

}  // namespace accel
