// ctl.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "core/log.h"
#include "runner/cli/verbs.h"
#include "runner/report/run_summary.h"
#include "runner/track/control_box.h"

namespace accel {
namespace {

constexpr auto kNoneDone = "none of the orders is carried out";
const std::vector<std::string> kOrders = {"eval", "pause", "resume", "save", "stop"};

void check_order(const std::string& order) {
  if (order.find('\n') != std::string::npos) {
    throw Error(ExitCode::kRecipe, "an order has more than one line",
                "give each order as a word of its own");
  }
  if (order.find('=') != std::string::npos) return;  // the run knows its options
  if (std::find(kOrders.begin(), kOrders.end(), order) != kOrders.end()) return;
  throw Error(ExitCode::kRecipe, "'" + order + "' is no order to a run",
              "give save, eval, stop, pause, resume or an option such as lr=1e-4");
}

void check_wait(double seconds) {
  constexpr double kMost = 1e9;  // what a clock in nanoseconds can count to
  if (seconds > 0 && seconds <= kMost) return;
  std::ostringstream found;
  found << seconds;
  throw Error(ExitCode::kRecipe,
              "'--wait' must be above 0 seconds and at most 1e9, not " + found.str(),
              "leave it out to wait for 60 seconds");
}

/// Throws Error when nobody is there to obey.
void check_running(const std::string& run) {
  const RunSummary summary = read_run(run);
  const RunStanding standing = summary.standing();
  if (standing == RunStanding::kRunning || standing == RunStanding::kPaused ||
      standing == RunStanding::kUnknown) {
    return;
  }
  throw Error(ExitCode::kOther,
              "the run in '" + run + "' " +
                  (standing == RunStanding::kCrashed ? "has crashed" : "has ended"),
              "go on with 'accel-run resume " + run + "'");
}

ControlAnswer wait_for_answer(const std::string& run, std::string order, const std::string& id,
                              double seconds) {
  std::replace(order.begin(), order.end(), '\n', ' ');
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  constexpr std::chrono::milliseconds kBetweenLooks(50);
  constexpr int kLooksBetweenChecks = 20;
  for (int looks = 1; Clock::now() < end; ++looks) {
    if (auto answer = take_answer(run, id)) return *answer;
    std::this_thread::sleep_for(kBetweenLooks);
    if (looks % kLooksBetweenChecks != 0) continue;
    try {
      check_running(run);
    } catch (const Error&) {
      if (auto answer = take_answer(run, id)) return *answer;
      withdraw_order(run, id);
      throw;
    }
  }
  const bool withdrawn = withdraw_order(run, id);
  throw Error(ExitCode::kTimeout,
              withdrawn ? "the run has not come to '" + order + "', which is withdrawn"
                        : "the run is still at '" + order + "'",
              "a step, an evaluation or a save may take long: look at it with 'accel-run top " +
                  run + "', or give '--wait' more seconds");
}

}  // namespace

ExitCode ctl_verb(const std::string& run, const std::vector<std::string>& orders, double wait) {
  check_wait(wait);
  for (const std::string& order : orders) check_order(order);
  check_running(run);
  std::string text;
  for (const std::string& order : orders) text += (text.empty() ? "" : "\n") + order;
  const ControlAnswer answer = wait_for_answer(run, text, post_order(run, text), wait);
  if (!answer.done) {
    const size_t line = std::min(answer.text.find('\n'), answer.text.size());
    std::string hint = line < answer.text.size() ? answer.text.substr(line + 1) : "";
    if (orders.size() > 1) hint += (hint.empty() ? "" : "; ") + std::string(kNoneDone);
    throw Error(ExitCode::kRecipe, answer.text.substr(0, line), hint);
  }
  say(answer.text);
  return ExitCode::kDone;
}

}  // namespace accel
