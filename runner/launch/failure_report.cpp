#include "runner/launch/failure_report.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include "core/json_text.h"
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
std::vector<std::string> sight_lines(const FailureFacts& facts) {
  std::vector<int64_t> order = facts.cause.missing;
  for (int64_t i = 0; i < static_cast<int64_t>(facts.ranks.size()); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  const size_t told = std::min(order.size(), kMostRankLines);
  std::vector<std::string> lines;
  for (size_t i = 0; i < told; ++i) {
    lines.push_back(rank_name(order[i] + facts.first_rank) + ": " +
                    sight_text(facts.ranks[static_cast<size_t>(order[i])]));
  }
  if (told < order.size()) {
    lines.push_back("and " + std::to_string(order.size() - told) + " more");
  }
  return lines;
}

std::string sights_text(const FailureFacts& facts) {
  std::string text;
  for (const std::string& line : sight_lines(facts)) text.append("  ").append(line).append("\n");
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

std::string hint_of(const FailureFacts& facts) {
  std::string hint;
  const auto add = [&hint](const std::string& part) { hint += (hint.empty() ? "" : "; ") + part; };
  if (facts.out_of_memory) {
    add("the kernel has ended a process for lack of memory: use smaller batches or fewer ranks");
  }
  if (!facts.log_path.empty()) add("what it printed is in " + quoted(facts.log_path));
  if (!facts.go_on_with.empty()) add("go on from the last checkpoint: " + facts.go_on_with);
  return hint;
}

std::string hint_text(const FailureFacts& facts) {
  const std::string hint = hint_of(facts);
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

/// What the rank that is the cause said itself before it ended; empty if nothing.
std::string given_text(const FailureFacts& facts) {
  const RankStatus& status = facts.ranks[static_cast<size_t>(facts.cause.rank)].status;
  return !facts.cause.end.by_signal && status.failed ? status.error : "";
}

/// Who waits does not know what the others do.
bool tells_of_others(const FailureFacts& facts) {
  return facts.cause.code() == ExitCode::kTimeout && facts.ranks.size() > 1;
}

bool may_go_on(const FailureFacts& facts) {
  return facts.cause.code() == ExitCode::kRank || facts.cause.code() == ExitCode::kTimeout;
}

std::string end_message(const FailureFacts& facts) {
  const RankSight& sight = facts.ranks[static_cast<size_t>(facts.cause.rank)];
  return rank_name(facts.cause.rank + facts.first_rank) + " " + end_text(facts.cause.end) + " " +
         place_of(sight.status) + " (process " + std::to_string(sight.pid) + " on host " +
         quoted(facts.host) + ")";
}

std::string of_ended_rank(const FailureFacts& facts) {
  const std::string given = given_text(facts);
  if (given.empty()) {
    return kErrorStart + end_message(facts) + "\n" + hint_text(facts) + lines_text(facts);
  }
  const int64_t rank = facts.cause.rank + facts.first_rank;
  std::string text = rank_error_text(given, all_gave(facts, given) ? -1 : rank);
  if (tells_of_others(facts)) text.insert(text.find('\n') + 1, sights_text(facts));
  if (may_go_on(facts) && text.find("\n  hint: ") == std::string::npos) text += hint_text(facts);
  return text;
}

std::string json_list(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (const std::string& line : lines) {
    text.append(text.size() > 1 ? ", " : "").append(json_text(line));
  }
  return text + "]";
}

/// `, "key": value`; nothing for what is not known.
std::string json_field(const char* key, const std::string& value) {
  if (value.empty() || value == "[]" || value == "\"\"") return {};
  return std::string(", \"").append(key).append("\": ").append(value);
}

/// A rank's own line with what only the launcher knows.
std::string json_of_given(const FailureFacts& facts, const std::string& given,
                          const char* severity) {
  std::string text = given.ends_with('\n') ? given : given + "\n";
  std::string more;
  if (!all_gave(facts, given)) {
    more += json_field("rank", std::to_string(facts.cause.rank + facts.first_rank));
  }
  if (tells_of_others(facts)) more += json_field("ranks", json_list(sight_lines(facts)));
  if (may_go_on(facts) && text.find(", \"hint\": ") == std::string::npos) {
    more += json_field("hint", json_text(hint_of(facts)));
  }
  text.insert(text.find('\n') - 1, more);
  const std::string mine = "\"severity\": \"error\"";
  const size_t at = text.find(mine);
  if (at != std::string::npos) {
    text.replace(at, mine.size(), std::string("\"severity\": ") + json_text(severity));
  }
  return text;
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
  } else if (rank < 0 && first_line.find(": error: ") != std::string::npos) {
    // as it was: with the place in a recipe
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

std::string warning_json(const std::string& message) {
  return "{\"severity\": \"warning\", \"message\": " + json_text(message) + "}\n";
}

std::string report_json(const FailureFacts& facts, const char* severity) {
  const bool ended = facts.cause.kind == CauseKind::kEnded;
  const std::string given = ended ? given_text(facts) : "";
  if (given.starts_with('{')) return json_of_given(facts, given, severity);
  const std::string message = !given.empty() ? given
                              : ended        ? end_message(facts)
                                             : hang_text(facts);
  std::string text = std::string("{\"severity\": ").append(json_text(severity));
  text += json_field("message", json_text(message));
  text += json_field("hint", json_text(hint_of(facts)));
  if (ended) text += json_field("rank", std::to_string(facts.cause.rank + facts.first_rank));
  if (!ended) text += json_field("ranks", json_list(sight_lines(facts)));
  text += json_field("last_lines", json_list(facts.last_lines));
  return text + "}\n";
}

}  // namespace accel
