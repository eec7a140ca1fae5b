#include "runner/launch/failure_report.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include "core/utf8.h"

namespace accel {
namespace {

constexpr size_t kMostRankLines = 32;
constexpr auto kErrorStart = "error: ";

std::string quoted(const std::string& name) {
  return "'" + printable(name) + "'";
}

std::string rank_name(int64_t rank) {
  return "rank " + std::to_string(rank);
}

/// "rank 1" or "ranks 1, 2 and 3".
std::string rank_names(const std::vector<int64_t>& ranks, int64_t first_rank) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i] + first_rank);
  }
  return text;
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name ? " (SIG" + std::string(name) + ")" : "");
}

std::string end_text(RankEnd end) {
  return end.by_signal ? "was killed by " + signal_text(end.number)
                       : "ended with exit code " + std::to_string(end.number);
}

std::string collective_text(const RankStatus& status) {
  return "collective " + std::to_string(status.sequence) + " " + quoted(status.collective);
}

/// "at step 3, in collective 41 'gradients 2'".
std::string place_of(const RankStatus& status) {
  if (status.pid == 0) return "while it started";
  std::string text =
      status.step < 0 ? "before its first step" : "at step " + std::to_string(status.step);
  if (status.inside) return text + ", in " + collective_text(status);
  if (!status.phase.empty()) text += ", in phase " + quoted(status.phase);
  if (status.sequence >= 0) text += ", after " + collective_text(status);
  return text;
}

std::string seconds_text(double seconds) {
  return std::to_string(std::llround(std::floor(seconds))) + " s";
}

std::string sight_text(const RankSight& sight) {
  if (sight.state == 0) return end_text(sight.end);
  const bool stopped = sight.state == 'T' || sight.state == 't';
  std::string text = (stopped ? "stopped " : "running ") + place_of(sight.status);
  text += " (process " + std::to_string(sight.pid);
  if (sight.status.pid != 0) text += ", silent for " + seconds_text(sight.silent_seconds);
  return text + ")";
}

/// Those that are waited for first: of many ranks not all are told.
std::string sights_text(const FailureFacts& facts) {
  std::vector<int64_t> order = facts.cause.missing;
  for (int64_t i = 0; i < static_cast<int64_t>(facts.ranks.size()); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  const size_t told = std::min(order.size(), kMostRankLines);
  std::string text;
  for (size_t i = 0; i < told; ++i) {
    text += "  " + rank_name(order[i] + facts.first_rank) + ": " +
            sight_text(facts.ranks[static_cast<size_t>(order[i])]) + "\n";
  }
  if (told < order.size()) text += "  and " + std::to_string(order.size() - told) + " more\n";
  return text;
}

std::string hang_text(const FailureFacts& facts) {
  const Cause& cause = facts.cause;
  const std::string who = rank_names(cause.missing, facts.first_rank);
  const std::string time = std::to_string(cause.limit_ms / 1000) + " s";
  const bool several = cause.missing.size() > 1;
  if (cause.kind == CauseKind::kStopped) {
    return who + (several ? " have" : " has") + " been stopped for " + time;
  }
  if (cause.kind == CauseKind::kLeftBehind) {
    return who + (several ? " still run " : " still runs ") + time + " after others have ended";
  }
  const RankSight& waiting = facts.ranks[static_cast<size_t>(cause.rank)];
  return who + " did not come to " + collective_text(waiting.status) + " within " + time;
}

std::string hint_text(const FailureFacts& facts) {
  std::string hint;
  const auto add = [&hint](const std::string& part) { hint += (hint.empty() ? "" : "; ") + part; };
  if (facts.out_of_memory) {
    add("the kernel has ended a process for lack of memory: use smaller batches or fewer ranks");
  }
  if (!facts.log_path.empty()) add("what it printed is in " + quoted(facts.log_path));
  if (!facts.go_on_with.empty()) add("go on from the last checkpoint: " + facts.go_on_with);
  return hint.empty() ? "" : "  hint: " + hint + "\n";
}

std::string lines_text(const FailureFacts& facts) {
  if (facts.last_lines.empty()) return {};
  std::string text = "  its last lines:\n";
  for (const std::string& line : facts.last_lines) text += "    " + printable(line) + "\n";
  return text;
}

bool all_gave(const FailureFacts& facts, const std::string& error) {
  return std::all_of(facts.ranks.begin(), facts.ranks.end(), [&](const RankSight& rank) {
    return rank.status.failed && rank.status.error == error;
  });
}

std::string of_ended_rank(const FailureFacts& facts) {
  const RankSight& sight = facts.ranks[static_cast<size_t>(facts.cause.rank)];
  const int64_t rank = facts.cause.rank + facts.first_rank;
  const std::string& given = sight.status.error;
  if (!facts.cause.end.by_signal && sight.status.failed && !given.empty()) {
    std::string text = rank_error_text(given, all_gave(facts, given) ? -1 : rank);
    // Who waits does not know what the others do.
    const bool waited = facts.cause.code() == ExitCode::kTimeout && facts.ranks.size() > 1;
    if (waited) text.insert(text.find('\n') + 1, sights_text(facts));
    const bool may_go_on =
        facts.cause.code() == ExitCode::kRank || facts.cause.code() == ExitCode::kTimeout;
    if (may_go_on && text.find("\n  hint: ") == std::string::npos) text += hint_text(facts);
    return text;
  }
  return kErrorStart + rank_name(rank) + " " + end_text(facts.cause.end) + " " +
         place_of(sight.status) + " (process " + std::to_string(sight.pid) + " on host " +
         quoted(facts.host) + ")\n" + hint_text(facts) + lines_text(facts);
}

}  // namespace

std::string rank_error_text(const std::string& text, int64_t rank) {
  const std::string first_line = text.substr(0, text.find('\n'));
  const size_t message = text.starts_with(kErrorStart) ? std::strlen(kErrorStart) : 0;
  const bool named =
      rank < 0 || text.compare(message, rank_name(rank).size() + 1, rank_name(rank) + " ") == 0;
  const std::string name = named ? "" : rank_name(rank) + ": ";
  std::string result = text;
  if (text.starts_with(kErrorStart)) {
    result.insert(std::strlen(kErrorStart), name);
  } else if (rank < 0 &&
             (first_line.find(": error: ") != std::string::npos || text.starts_with('{'))) {
    // as it was: with the place in a recipe, or for a machine to read
  } else {
    result.insert(0, kErrorStart + name);
  }
  if (!result.ends_with('\n')) result += '\n';
  return result;
}

std::string report_text(const FailureFacts& facts) {
  if (facts.cause.kind == CauseKind::kEnded) return of_ended_rank(facts);
  return kErrorStart + hang_text(facts) + "\n" + sights_text(facts) + hint_text(facts);
}

}  // namespace accel
