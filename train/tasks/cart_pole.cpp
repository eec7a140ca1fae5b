#include "train/tasks/cart_pole.h"

#include <cmath>
#include <numbers>

namespace accel {
namespace {

constexpr double kGravity = 9.8;   // m/s^2
constexpr double kCartMass = 1.0;  // kg
constexpr double kPoleMass = 0.1;  // kg
constexpr double kHalfPole = 0.5;  // m
constexpr double kForce = 10.0;    // N
constexpr double kSeconds = 0.02;  // of a step
constexpr double kMostDistance = 2.4;
constexpr double kMostAngle = 12 * std::numbers::pi / 180;

}  // namespace

bool CartPole::push(bool right) {
  auto& [place, speed, angle, turn] = state_;
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const double mass = kCartMass + kPoleMass, moment = kPoleMass * kHalfPole;
  const double push = ((right ? kForce : -kForce) + moment * turn * turn * sine) / mass;
  const double turning = (kGravity * sine - cosine * push) /
                         (kHalfPole * (4.0 / 3.0 - kPoleMass * cosine * cosine / mass));
  const double pushing = push - moment * turning * cosine / mass;
  place += kSeconds * speed;
  speed += kSeconds * pushing;
  angle += kSeconds * turn;
  turn += kSeconds * turning;
  return std::abs(place) <= kMostDistance && std::abs(angle) <= kMostAngle;
}

}  // namespace accel
