#include "runner/cli/fault.h"

#include <sys/time.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr auto kVariable = "ACCEL_RUN_FAULT";
constexpr suseconds_t kDelayMicroseconds = 200;

template <class Value, size_t N>
Value named(const std::array<std::pair<const char*, Value>, N>& names, const std::string& text,
            const std::string& whole) {
  for (const auto& [name, value] : names) {
    if (text == name) return value;
  }
  throw Error(ExitCode::kRecipe, std::string(kVariable) + " is '" + whole + "', which is no fault",
              "give ACTION:RANK:SEQUENCE:WHEN, such as kill:1:7:during");
}

void spin() noexcept {
  for (volatile bool forever = true; forever;) {
  }
}

}  // namespace

std::optional<Fault> Fault::of_rank(int64_t rank) {
  const char* variable = std::getenv(kVariable);
  if (!variable) return std::nullopt;
  const std::string whole = variable;
  std::istringstream in(whole);
  std::array<std::string, 4> parts;
  for (std::string& part : parts) std::getline(in, part, ':');
  Fault fault;
  fault.action_ = named<Action, 3>(
      {{{"kill", Action::kKill}, {"stop", Action::kStop}, {"spin", Action::kSpin}}}, parts[0],
      whole);
  fault.when_ = named<When, 3>(
      {{{"before", When::kBefore}, {"during", When::kDuring}, {"after", When::kAfter}}}, parts[3],
      whole);
  fault.sequence_ = std::atoll(parts[2].c_str());
  return std::atoll(parts[1].c_str()) == rank ? std::optional(fault) : std::nullopt;
}

void Fault::entered(int64_t sequence) const noexcept {
  if (sequence != sequence_) return;
  if (when_ == When::kBefore) act();
  if (when_ != When::kDuring) return;
  std::signal(
      SIGALRM, action_ == Action::kStop   ? [](int) { std::raise(SIGSTOP); }
               : action_ == Action::kKill ? [](int) { std::raise(SIGKILL); }
                                          : [](int) { spin(); });
  const itimerval soon = {{0, 0}, {0, kDelayMicroseconds}};
  setitimer(ITIMER_REAL, &soon, nullptr);
}

void Fault::left(int64_t sequence) const noexcept {
  if (sequence == sequence_ && when_ == When::kAfter) act();
}

void Fault::act() const noexcept {
  if (action_ == Action::kKill) std::raise(SIGKILL);
  if (action_ == Action::kStop) std::raise(SIGSTOP);
  if (action_ == Action::kSpin) spin();
}

}  // namespace accel
