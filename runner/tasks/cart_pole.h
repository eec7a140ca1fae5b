// A pole on a cart that is pushed left or right: the balancing task of Barto, Sutton and Anderson
// (1983). No libtorch.
#pragma once

#include <array>

namespace accel {

/// One of them; a step is a fiftieth of a second.
class CartPole {
 public:
  /// Cart's place (m) and speed, pole's angle (rad, 0 is upright) and speed.
  using State = std::array<double, 4>;

  explicit CartPole(const State& state) : state_(state) {}

  const State& state() const { return state_; }
  /// Pushes for one step. False when the pole has tipped by more than 12 degrees or the cart is
  /// more than 2.4 m away: then it is over.
  bool push(bool right);

 private:
  State state_;
};

}  // namespace accel
