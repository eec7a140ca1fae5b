#include "runner/launch/failure_report.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include "core/base/json_text.h"
#include "core/base/rank_phases.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr size_t kMostRankLines = 32;
constexpr auto kErrorStart = "error: ";
constexpr auto kLocatedError = ": error: ";  // after the position in a recipe

std::string rank_name(int64_t rank) {
  return "rank " + std::to_string(rank);
}

/// "3", or with its place in the mesh "3 (pp 1, tp 1)", of a rank of this machine.
std::string rank_number(const FailureContext& context, int64_t local) {
  const int64_t rank = local + context.first_rank;
  const auto index = static_cast<size_t>(rank);
  const bool placed = index < context.places.size() && !context.places[index].empty();
  return std::to_string(rank) + (placed ? " (" + context.places[index] + ")" : "");
}

/// "rank 1" or "ranks 1, 2 and 3".
std::string rank_names(const FailureContext& context, const std::vector<int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += rank_number(context, ranks[i]);
  }
  return text;
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? text("signal {} (SIG{})", signal, name) : text("signal {}", signal);
}

std::string end_text(RankEnd end) {
  return end.by_signal ? text("was killed by {}", signal_text(end.number))
                       : text("ended with exit code {}", end.number);
}

std::string collective_text(const RankStatus& status) {
  return text("collective {} '{}'", status.sequence, printable(status.collective));
}

/// "at step 3, in collective 41 'gradients 2'".
std::string state_text(const RankStatus& status) {
  if (status.pid == 0) return "while it started";
  std::string out = status.step < 0 ? "before its first step" : text("at step {}", status.step);
  if (status.inside) return text("{}, in {}", out, collective_text(status));
  if (!status.phase.empty()) out += text(", in phase '{}'", printable(status.phase));
  if (status.sequence >= 0) out += text(", after {}", collective_text(status));
  return out;
}

std::string sight_text(const RankSnapshot& rank_state) {
  if (rank_state.state == 0) return end_text(rank_state.end);
  const bool stopped = rank_state.state == 'T' || rank_state.state == 't';
  const char* const what = stopped ? "stopped" : "running";
  const std::string where = state_text(rank_state.status);
  if (rank_state.status.pid == 0) return text("{} {} (process {})", what, where, rank_state.pid);
  return text("{} {} (process {}, silent for {} s)", what, where, rank_state.pid,
              std::llround(std::floor(rank_state.silent_seconds)));
}

/// The missing ranks first; at most a few ranks are listed.
std::vector<std::string> rank_lines(const FailureContext& context) {
  std::vector<int64_t> order = context.cause.missing;
  for (int64_t i = 0; i < static_cast<int64_t>(context.ranks.size()); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  const size_t shown = std::min(order.size(), kMostRankLines);
  std::vector<std::string> lines;
  for (size_t i = 0; i < shown; ++i) {
    lines.push_back(text("rank {}: {}", rank_number(context, order[i]),
                         sight_text(context.ranks[static_cast<size_t>(order[i])])));
  }
  if (shown < order.size()) lines.push_back(text("and {} more", order.size() - shown));
  return lines;
}

std::string ranks_text(const FailureContext& context) {
  std::string text;
  for (const std::string& line : rank_lines(context)) text.append("  ").append(line).append("\n");
  return text;
}

std::string hang_text(const FailureContext& context) {
  const Cause& cause = context.cause;
  const std::string who = rank_names(context, cause.missing);
  const auto seconds = cause.limit_ms / 1000;
  const bool several = cause.missing.size() > 1;
  if (cause.kind == CauseKind::kStopped) {
    return several ? text("{} have been stopped for {} s", who, seconds)
                   : text("{} has been stopped for {} s", who, seconds);
  }
  if (cause.kind == CauseKind::kLeftBehind) {
    return several ? text("{} still run {} s after others have ended", who, seconds)
                   : text("{} still runs {} s after others have ended", who, seconds);
  }
  const RankSnapshot& waiting = context.ranks[static_cast<size_t>(cause.rank)];
  return text("{} did not reach {} within {} s", who, collective_text(waiting.status), seconds);
}

std::string hint_of(const FailureContext& context) {
  std::string hint;
  const auto add = [&hint](const std::string& part) { hint += (hint.empty() ? "" : "; ") + part; };
  if (context.out_of_memory) {
    add("the kernel killed a process that ran out of memory: use smaller batches or fewer ranks");
  }
  if (!context.log_path.empty()) add(text("its output is in '{}'", printable(context.log_path)));
  if (!context.resume_command.empty()) add(text("resume with: {}", context.resume_command));
  return hint;
}

std::string hint_text(const FailureContext& context) {
  const std::string hint = hint_of(context);
  return hint.empty() ? "" : "  hint: " + hint + "\n";
}

std::string lines_text(const FailureContext& context) {
  if (context.last_lines.empty()) return {};
  std::string text = "  its last lines:\n";
  for (const std::string& line : context.last_lines) text += "    " + printable(line) + "\n";
  return text;
}

bool all_gave(const FailureContext& context, const std::string& error) {
  return std::all_of(context.ranks.begin(), context.ranks.end(), [&](const RankSnapshot& rank) {
    return rank.status.failed && rank.status.error == error;
  });
}

/// The error that the failed rank reported itself; empty without one.
std::string given_text(const FailureContext& context) {
  const RankStatus& status = context.ranks[static_cast<size_t>(context.cause.rank)].status;
  return !context.cause.end.by_signal && status.failed ? status.error : "";
}

/// Whether the failed rank was waiting for others, whose state explains more.
bool reports_other_ranks(const FailureContext& context) {
  return context.cause.code() == ExitCode::kTimeout && context.ranks.size() > 1;
}

bool may_resume(const FailureContext& context) {
  return context.cause.code() == ExitCode::kRank || context.cause.code() == ExitCode::kTimeout;
}

std::string end_message(const FailureContext& context) {
  const RankSnapshot& rank_state = context.ranks[static_cast<size_t>(context.cause.rank)];
  return text("rank {} {} {} (process {} on host '{}')", rank_number(context, context.cause.rank),
              end_text(context.cause.end), state_text(rank_state.status), rank_state.pid,
              printable(context.host));
}

std::string of_ended_rank(const FailureContext& context) {
  const std::string given = given_text(context);
  if (given.empty()) {
    return kErrorStart + end_message(context) + "\n" + hint_text(context) + lines_text(context);
  }
  const int64_t rank = context.cause.rank + context.first_rank;
  std::string text = rank_error_text(given, all_gave(context, given) ? -1 : rank);
  if (reports_other_ranks(context)) text.insert(text.find('\n') + 1, ranks_text(context));
  if (may_resume(context) && text.find("\n  hint: ") == std::string::npos)
    text += hint_text(context);
  return text;
}

std::string json_list(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (const std::string& line : lines) {
    text.append(text.size() > 1 ? ", " : "").append(json_text(line));
  }
  return text + "]";
}

/// `, "key": value`; nothing for an empty value.
std::string json_field(const char* key, const std::string& value) {
  if (value.empty() || value == "[]" || value == "\"\"") return {};
  return std::string(", \"").append(key).append("\": ").append(value);
}

/// A rank's JSON line with the launcher's fields.
std::string json_of_given(const FailureContext& context, const std::string& given,
                          const char* severity) {
  std::string text = given.ends_with('\n') ? given : given + "\n";
  std::string more;
  if (!all_gave(context, given)) {
    more += json_field("rank", std::to_string(context.cause.rank + context.first_rank));
  }
  if (reports_other_ranks(context)) more += json_field("ranks", json_list(rank_lines(context)));
  if (may_resume(context) && text.find(", \"hint\": ") == std::string::npos) {
    more += json_field("hint", json_text(hint_of(context)));
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
  const size_t located = text.substr(0, text.find('\n')).find(kLocatedError);
  size_t message = 0;
  if (text.starts_with(kErrorStart)) {
    message = std::strlen(kErrorStart);
  } else if (located != std::string::npos) {
    message = located + std::strlen(kLocatedError);
  }
  const bool named =
      rank < 0 || text.compare(message, rank_name(rank).size() + 1, rank_name(rank) + " ") == 0;
  std::string result = text;
  if (!named) result.insert(message, rank_name(rank) + ": ");
  if (message == 0) result.insert(0, kErrorStart);
  if (!result.ends_with('\n')) result += '\n';
  return result;
}

bool missed_expectations(const FailureContext& context) {
  const Cause& cause = context.cause;
  if (cause.kind != CauseKind::kEnded || cause.end.by_signal) return false;
  const RankStatus& status = context.ranks[static_cast<size_t>(cause.rank)].status;
  return cause.end.number == static_cast<int>(ExitCode::kOther) && !status.failed &&
         status.phase == kExpectationsPhase;
}

std::string report_text(const FailureContext& context) {
  if (context.cause.kind == CauseKind::kEnded) return of_ended_rank(context);
  return kErrorStart + hang_text(context) + "\n" + ranks_text(context) + hint_text(context);
}

std::string warning_json(const std::string& message) {
  return "{\"severity\": \"warning\", \"message\": " + json_text(message) + "}\n";
}

std::string error_json(const std::string& message, const std::string& hint) {
  return "{\"severity\": \"error\", \"message\": " + json_text(message) +
         json_field("hint", json_text(hint)) + "}\n";
}

std::string report_json(const FailureContext& context, const char* severity) {
  const bool ended = context.cause.kind == CauseKind::kEnded;
  const std::string given = ended ? given_text(context) : "";
  if (given.starts_with('{')) return json_of_given(context, given, severity);
  const std::string message = !given.empty() ? given
                              : ended        ? end_message(context)
                                             : hang_text(context);
  std::string text = std::string("{\"severity\": ").append(json_text(severity));
  text += json_field("message", json_text(message));
  text += json_field("hint", json_text(hint_of(context)));
  if (ended) text += json_field("rank", std::to_string(context.cause.rank + context.first_rank));
  if (!ended) text += json_field("ranks", json_list(rank_lines(context)));
  text += json_field("last_lines", json_list(context.last_lines));
  return text + "}\n";
}

}  // namespace accel
