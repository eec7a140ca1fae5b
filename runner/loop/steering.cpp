#include "runner/loop/steering.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "core/log.h"
#include "runner/dist/operations.h"
#include "runner/loop/live_options.h"

namespace accel {
namespace {

constexpr std::chrono::milliseconds kBetweenBeats(100);

/// At least one.
std::deque<std::string> lines_of(const std::string& text) {
  std::deque<std::string> lines;
  std::istringstream in(text + "\n");
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

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

std::string Steering::obstacle(const std::string& order) const {
  if (order == "save" || order == "stop" || order == "pause" || order == "resume") return "";
  if (order == "eval") return job_.eval_loader ? "" : "the recipe has no eval data";
  try {
    read_change(job_, order);
    return "";
  } catch (const Error& error) {
    return std::string(error.what()) + (error.hint().empty() ? "" : "\n" + error.hint());
  }
}

bool Steering::are_possible(const std::deque<std::string>& orders) {
  std::string why;
  for (const std::string& order : orders) {
    if (why.empty()) why = obstacle(order);
  }
  const auto stop = std::find(orders.begin(), orders.end(), "stop");
  if (why.empty() && stop != orders.end() && stop + 1 != orders.end()) {
    why = "'stop' has orders behind it\nlet it be the last";
  }
  if (!why.empty()) box_->answer(*order_, false, why);
  return why.empty();
}

/// On rank 0; "" for none.
std::string Steering::next_order(int64_t step) {
  const auto next_of = [](std::deque<std::string>& orders) {
    std::string order = std::move(orders.front());
    orders.pop_front();
    return order;
  };
  if (!parts_.empty()) return next_of(parts_);
  order_.reset();
  told_.clear();
  if (!again_.empty() && again_.front().step <= step) {
    const std::string order = again_.front().order;
    again_.pop_front();
    return order;
  }
  while (auto order = box_->take()) {
    order_ = std::move(order);
    std::deque<std::string> parts = lines_of(order_->text);
    if (!are_possible(parts)) continue;
    parts_ = std::move(parts);
    return next_of(parts_);
  }
  return "";
}

bool Steering::obey(int64_t step, const SteeringActions& actions) {
  while (!stops_) {
    const std::string order = broadcast_text(*job_.group, box_ ? next_order(step) : "");
    if (!order.empty()) {
      const bool again = box_ && !order_;
      const std::string text = carry_out(step, order, actions);
      if (order_) {
        told_ += (told_.empty() ? "" : "\n") + text;
        if (parts_.empty()) box_->answer(*order_, true, told_);
      }
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
