// The change of a callback that lets a run continue which the callback has stopped.
#pragma once

#include <string>

namespace accel {

/// Implemented by callbacks with Callback::stop().
class Continuation {
 public:
  virtual ~Continuation() = default;
  /// An option with a value that lets the stopped run continue: "patience=6".
  virtual std::string change_to_continue() const = 0;
};

}  // namespace accel
