#include "runner/loop/steering.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/log.h"
#include "runner/dist/operations.h"
#include "runner/loop/live_options.h"

namespace accel {
namespace {

constexpr std::chrono::milliseconds kBetweenBeats(100);

std::string after(int64_t step) {
  return " after step " + std::to_string(step);
}

}  // namespace

void steer_back(Job& job, const std::string& run_dir, const std::string& checkpoint,
                const std::vector<std::string>& without) {
  const std::vector<JournalEntry> journal = read_journal(run_dir);
  if (journal.empty()) return;
  const Node then = parse_recipe("checkpoint.yaml", checkpoint);
  for (const JournalEntry& entry : journal) {
    const std::string key = entry.key();
    if (key.empty() || std::find(without.begin(), without.end(), key) != without.end()) continue;
    const LiveChange change = read_change(job, key + "=" + option_text(then, key));
    if (change.was != change.is) apply_change(job, change);
  }
}

Steering::Steering(Job& job, RunRecord& record, const std::string& run_dir, int64_t step,
                   bool leads)
    : job_(job), record_(record), run_dir_(run_dir) {
  if (!leads) return;
  if (step == 0) clear_journal(run_dir);
  for (JournalEntry& entry : read_journal(run_dir)) {
    if (entry.step >= step) again_.push_back(std::move(entry));
  }
  box_.emplace(run_dir);
}

bool Steering::waiting(int64_t step) {
  if (!box_) return false;
  return (!again_.empty() && again_.front().step <= step) || box_->waiting();
}

bool Steering::is_possible(const std::string& order) {
  const auto refuse = [&](const std::string& why) {
    box_->answer(*order_, false, why);
    return false;
  };
  if (order == "save" || order == "stop" || order == "pause" || order == "resume") return true;
  if (order == "eval") return job_.eval_loader ? true : refuse("the recipe has no eval data");
  try {
    read_change(job_, order);
    return true;
  } catch (const Error& error) {
    const std::string hint = error.hint();
    return refuse(std::string(error.what()) + (hint.empty() ? "" : "\n" + hint));
  }
}

/// On rank 0; "" for none.
std::string Steering::next_order(int64_t step) {
  order_.reset();
  if (!again_.empty() && again_.front().step <= step) {
    const std::string order = again_.front().order;
    again_.pop_front();
    return order;
  }
  while (auto order = box_->take()) {
    order_ = std::move(order);
    if (is_possible(order_->text)) return order_->text;
  }
  return "";
}

bool Steering::obey(int64_t step, const SteeringActions& actions) {
  while (!stops_) {
    const std::string order = broadcast_text(*job_.group, box_ ? next_order(step) : "");
    if (!order.empty()) {
      const bool again = box_ && !order_;
      const std::string text = carry_out(step, order, actions);
      if (order_) box_->answer(*order_, true, text);
      say("ctl " + order + (again ? ", as before: " : ": ") + text);
      continue;
    }
    if (!paused_ || actions.any_must_stop()) break;
    if (box_) std::this_thread::sleep_for(kBetweenBeats);
  }
  return stops_;
}

std::string Steering::carry_out(int64_t step, const std::string& order,
                                const SteeringActions& actions) {
  if (order.find('=') != std::string::npos) return change(step, order, actions);
  if (order == "eval") {
    actions.evaluate();
    write_down(step, {step, order, ""});
    return "evaluated" + after(step);
  }
  if (order == "save") {
    return actions.save();
  }
  paused_ = order == "pause";
  stops_ = order == "stop";
  job_.watch->phase(paused_ ? "paused" : "training");
  record_.event(step,
                order == "resume"  ? "continued"
                : order == "pause" ? "paused"
                                   : "stopped",
                "by ctl");
  record_.flush();
  return paused_ ? "paused" + after(step) : stops_ ? "stops" + after(step) : "goes on";
}

std::string Steering::change(int64_t step, const std::string& order,
                             const SteeringActions& actions) {
  const LiveChange change = read_change(job_, order);
  // Written down first: what a crash leaves may be done again, but not forgotten.
  write_down(step, {step, change.order(), change.was});
  apply_change(job_, change);
  actions.changed(change.key);
  std::string text = change.key + " was " + change.was;
  text.append(", is ").append(change.is).append(after(step));
  return text;
}

void Steering::write_down(int64_t step, const JournalEntry& entry) {
  if (!order_) return;  // not rank 0, or it is there already
  add_to_journal(run_dir_, entry);
  record_.event(step, "ctl", entry.order);
  record_.flush();
}

}  // namespace accel
