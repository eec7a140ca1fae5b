// The cart-pole environment: balancing a pole on a cart (Barto, Sutton and Anderson, 1983).
#pragma once

#include <array>

namespace accel {

/// One environment; a time step is 20 ms.
class CartPole {
 public:
  /// Cart position (m) and velocity, pole angle (rad, 0 is upright) and angular velocity.
  using State = std::array<double, 4>;

  explicit CartPole(const State& state) : state_(state) {}

  const State& state() const { return state_; }
  /// Applies a force for one time step. False ends the episode: pole angle above 12 degrees or cart
  /// position beyond 2.4 m.
  bool push(bool right);

 private:
  State state_;
};

}  // namespace accel
