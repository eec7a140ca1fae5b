#include "train/control/run_control.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/operations.h"
#include "train/control/live_options.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

constexpr std::chrono::milliseconds kPausePoll(100);

/// At least one line.
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

void replay_commands(Job& job, const std::string& run_dir, const std::string& checkpoint,
                     const std::vector<std::string>& without) {
  const std::vector<JournalEntry> journal = read_journal(run_dir);
  if (journal.empty()) return;
  const Node then = parse_saved_recipe("checkpoint.yaml", checkpoint, job.registry);
  for (const JournalEntry& entry : journal) {
    const std::string key = entry.key();
    if (key.empty() || std::find(without.begin(), without.end(), key) != without.end()) continue;
    const LiveChange change = read_change(job, key + "=" + option_text(then, key));
    if (change.was != change.is) apply_change(job, change);
  }
}

RunControl::RunControl(Job& job, RunRecord& record, const std::string& run_dir, int64_t step,
                       bool leads)
    : job_(job), record_(record), run_dir_(run_dir) {
  if (!leads) return;
  if (step == 0) clear_journal(run_dir);
  for (JournalEntry& entry : read_journal(run_dir)) {
    if (entry.step >= step) replay_.push_back(std::move(entry));
  }
  box_.emplace(run_dir);
}

bool RunControl::waiting(int64_t step) {
  if (!box_) return false;
  return (!replay_.empty() && replay_.front().step <= step) || box_->waiting();
}

std::string RunControl::obstacle(const std::string& command) const {
  if (command == "save" || command == "stop" || command == "pause" || command == "resume")
    return "";
  if (command == "eval") return job_.eval_loader ? "" : "the recipe has no eval data";
  try {
    read_change(job_, command);
    return "";
  } catch (const Error& error) {
    return std::string(error.what()) + (error.hint().empty() ? "" : "\n" + error.hint());
  }
}

bool RunControl::are_possible(const std::deque<std::string>& commands) {
  std::string why;
  for (const std::string& command : commands) {
    if (why.empty()) why = obstacle(command);
  }
  const auto stop = std::find(commands.begin(), commands.end(), "stop");
  if (why.empty() && stop != commands.end() && stop + 1 != commands.end()) {
    why = "'stop' is followed by other commands\nmake it the last";
  }
  if (!why.empty()) box_->answer(*command_, false, why);
  return why.empty();
}

/// On rank 0; "" when there is none.
std::string RunControl::next_command(int64_t step) {
  const auto next_of = [](std::deque<std::string>& commands) {
    std::string command = std::move(commands.front());
    commands.pop_front();
    return command;
  };
  if (!pending_.empty()) return next_of(pending_);
  command_.reset();
  answer_.clear();
  if (!replay_.empty() && replay_.front().step <= step) {
    const std::string command = replay_.front().command;
    replay_.pop_front();
    return command;
  }
  while (auto command = box_->take()) {
    command_ = std::move(command);
    std::deque<std::string> lines = lines_of(command_->text);
    if (!are_possible(lines)) continue;
    pending_ = std::move(lines);
    return next_of(pending_);
  }
  return "";
}

bool RunControl::apply(int64_t step, const RunControlActions& actions) {
  while (!stops_) {
    const std::string command = broadcast_text(*job_.mesh.world, box_ ? next_command(step) : "");
    if (!command.empty()) {
      const bool replayed = box_ && !command_;
      const std::string text = run_command(step, command, actions);
      if (command_) {
        answer_ += (answer_.empty() ? "" : "\n") + text;
        if (pending_.empty()) box_->answer(*command_, true, answer_);
      }
      say(accel::text("ctl {}{}: {}", command, replayed ? " (replayed)" : "", text));
      continue;
    }
    if (!paused_ || actions.any_must_stop()) break;
    if (box_) std::this_thread::sleep_for(kPausePoll);
  }
  return stops_;
}

std::string RunControl::run_command(int64_t step, const std::string& command,
                                    const RunControlActions& actions) {
  if (command.find('=') != std::string::npos) return change(step, command, actions);
  if (command == "eval") {
    actions.evaluate();
    record(step, {step, command, ""});
    return "evaluated" + after(step);
  }
  if (command == "save") {
    return actions.save();
  }
  paused_ = command == "pause";
  stops_ = command == "stop";
  job_.watch->phase(paused_ ? "paused" : "training");
  record_.event(step,
                command == "resume"  ? "continued"
                : command == "pause" ? "paused"
                                     : "stopped",
                "by command");
  record_.flush();
  return paused_ ? "paused" + after(step) : stops_ ? "stops" + after(step) : "resumed";
}

std::string RunControl::change(int64_t step, const std::string& command,
                               const RunControlActions& actions) {
  const LiveChange change = read_change(job_, command);
  // Recorded first: after a crash a change may be applied twice, but is not lost.
  record(step, {step, change.command(), change.was});
  apply_change(job_, change);
  actions.changed(change.key);
  return text("{} was {}, is {}{}", change.key, change.was, change.is, after(step));
}

void RunControl::record(int64_t step, const JournalEntry& entry) {
  if (!command_) return;  // another rank, or a replay
  add_to_journal(run_dir_, entry);
  record_.event(step, "ctl", entry.command);
  record_.flush();
}

}  // namespace accel
