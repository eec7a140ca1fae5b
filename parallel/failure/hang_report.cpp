#include "parallel/failure/hang_report.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/base/text.h"
#include "parallel/call_within.h"
#include "parallel/failure/lost_ranks.h"

namespace accel {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Number of ranks that wait too long.
constexpr auto kReporters = "hang/reporters";
// The error of the first one, without and with what the others have called.
constexpr auto kHangFound = "hang/found";
constexpr auto kVerdict = "hang/verdict";
// Number of ranks that have read kVerdict.
constexpr auto kVerdictReaders = "hang/readers";
constexpr auto kVerdictRead = "hang/all have read";
/// A rank looks for kHangFound once a second.
constexpr auto kCallsAnswer = std::chrono::milliseconds(3000);
constexpr auto kStoreAnswer = std::chrono::milliseconds(2000);
constexpr auto kStorePoll = std::chrono::milliseconds(20);
constexpr size_t kMostNamed = 8;

constexpr auto kTimeoutHint =
    "check that the others run and that their network works, or raise the timeout";

std::string calls_key(int64_t rank) {
  return "hang/calls/" + std::to_string(rank);
}

Json to_json(const LoggedCall& call) {
  return {{"operation", call.operation}, {"purpose", call.purpose},         {"axes", call.axes},
          {"bytes", call.bytes},         {"sequence", call.sequence},       {"step", call.step},
          {"order", call.order},         {"collectives", call.collectives}, {"peers", call.peers}};
}

LoggedCall logged_call_of(const Json& in) {
  return {.operation = in.at("operation").get<std::string>(),
          .purpose = in.at("purpose").get<std::string>(),
          .axes = in.at("axes").get<std::string>(),
          .bytes = in.at("bytes").get<int64_t>(),
          .sequence = in.at("sequence").get<int64_t>(),
          .step = in.at("step").get<int64_t>(),
          .order = in.at("order").get<int64_t>(),
          .collectives = in.at("collectives").get<int64_t>(),
          .peers = in.at("peers").get<std::vector<int64_t>>()};
}

std::string to_json(const RankCalls& calls) {
  Json out = Json::object();
  for (const auto& [group, call] : calls) out[group] = to_json(call);
  return out.dump();
}

RankCalls calls_of(const std::string& json) {
  const Json in = Json::parse(json);
  RankCalls calls;
  for (const auto& [group, call] : in.items()) calls[group] = logged_call_of(call);
  return calls;
}

std::string to_json(const Error& error) {
  return Json{{"text", error.what()}, {"hint", error.hint()}}.dump();
}

Error error_of(const std::string& json) {
  const Json in = Json::parse(json);
  return Error(ExitCode::kTimeout, in.at("text").get<std::string>(),
               in.at("hint").get<std::string>());
}

/// "collective 41 'gradients' (all-reduce, 16 bytes, along tp)"
std::string call_text(const LoggedCall& call) {
  std::string details = call.operation;
  if (!call.peers.empty()) {
    details += (call.peers.size() > 1 ? " ranks " : " rank ") +
               joined(call.peers, " and ", [](int64_t rank) { return std::to_string(rank); });
  }
  if (call.bytes > 0) details += text(", {} bytes", call.bytes);
  if (!call.axes.empty()) details += text(", along {}", call.axes);
  return text("collective {} '{}' ({})", call.sequence, call.purpose, details);
}

/// "collective 41 'gradients' (all-reduce, 16 bytes) at step 7"
std::string call_at_step(const LoggedCall& call) {
  return call_text(call) + (call.step > 0 ? text(" at step {}", call.step) : "");
}

/// The last call in all groups; null without any.
const LoggedCall* last_of(const RankCalls& calls) {
  const LoggedCall* last = nullptr;
  for (const auto& [group, call] : calls) {
    if (!last || call.order > last->order) last = &call;
  }
  return last;
}

/// What `rank`, a name, has called instead of `hung`; "" when it has called it.
std::string difference(const HungCall& hung, const std::string& rank, const RankCalls& calls) {
  const LoggedCall* last = last_of(calls);
  if (!last) return text("{} has not called any", rank);
  if (!hung.call.peers.empty()) return text("{} last called {}", rank, call_at_step(*last));
  const auto own = calls.find(hung.group.name);
  if (own == calls.end() || own->second.collectives < hung.call.collectives) {
    return text("{} has not called it, its last is {}", rank, call_at_step(*last));
  }
  const LoggedCall& same = own->second;
  const bool is_same = same.operation == hung.call.operation && same.purpose == hung.call.purpose;
  const bool went_on = same.collectives > hung.call.collectives || !same.peers.empty();
  return is_same || went_on ? "" : text("{} has called {} instead", rank, call_at_step(same));
}

}  // namespace

HangReport::HangReport(Options options) : options_(std::move(options)) {}

bool HangReport::is_requested() const {
  return options_.store->check({kHangFound});
}

std::string HangReport::waited(const HungCall& hung) const {
  const std::string at = hung.call.step > 0 ? text("at step {}, ", hung.call.step) : "";
  return text("{} waited longer than 'accelerator.timeout', {} s, {}in {}",
              options_.ranks->name(options_.rank), hung.seconds, at, call_text(hung.call));
}

Error HangReport::of_alone(const std::string& waited) const {
  const std::string who =
      options_.of_rank_0 && options_.rank != 0 ? options_.ranks->name(0) : "the store of the ranks";
  return Error(ExitCode::kTimeout, text("{}: {} does not answer", waited, who), kTimeoutHint);
}

Error HangReport::judged(const HungCall& hung, const std::vector<int64_t>& asked,
                         const std::map<int64_t, RankCalls>& answers) const {
  std::vector<std::string> found;
  for (const int64_t rank : asked) {
    const std::string name = options_.ranks->name_with_host(*options_.store, rank);
    const auto answer = answers.find(rank);
    std::string line = answer == answers.end() ? text("{} does not answer", name)
                                               : difference(hung, name, answer->second);
    if (!line.empty()) found.push_back(std::move(line));
  }
  if (found.empty()) {
    return Error(ExitCode::kTimeout, text("{}: all ranks have called it", waited(hung)),
                 "check the GPUs and the network between them: set NCCL_DEBUG=INFO in the "
                 "environment for details");
  }
  const size_t more = found.size() - std::min(found.size(), kMostNamed);
  found.resize(found.size() - more);
  std::string list = joined(found, "; ");
  if (more > 0) list += text("; and {} more ranks", more);
  return Error(ExitCode::kTimeout, waited(hung) + ": " + list,
               "the logs of these ranks have the cause; if they need more time, raise the timeout");
}

std::map<int64_t, RankCalls> HangReport::collect(const std::vector<int64_t>& asked,
                                                 std::chrono::milliseconds patience) const {
  std::map<int64_t, RankCalls> answers;
  const auto end = Clock::now() + patience;
  while (true) {
    for (const int64_t rank : asked) {
      if (answers.contains(rank) || !options_.store->check({calls_key(rank)})) continue;
      answers[rank] = calls_of(options_.store->get_to_str(calls_key(rank)));
    }
    if (answers.size() == asked.size() || Clock::now() >= end) return answers;
    std::this_thread::sleep_for(kStorePoll);
  }
}

std::optional<Error> HangReport::await_verdict() const {
  try {
    options_.store->wait({kVerdict}, kCallsAnswer + kStoreAnswer / 2);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return error_of(options_.store->get_to_str(kVerdict));
}

/// The store ends with rank 0, and a launcher kills the others soon after the end of the first.
void HangReport::await_readers() const {
  const auto all = [self = *this] {
    c10d::Store& store = *self.options_.store;
    if (store.add(kVerdictReaders, 1) == self.options_.world) store.set(kVerdictRead, "yes");
    store.wait({kVerdictRead}, kStoreAnswer);
    return true;
  };
  try {
    call_within(kStoreAnswer, all);
  } catch (const std::exception&) {
    // A rank has ended without reading, or rank 0 has ended.
  }
}

Error HangReport::ask_ranks(const HungCall& hung, const RankCalls& own) const {
  options_.store->set(calls_key(options_.rank), to_json(own));
  const bool is_first = options_.store->add(kReporters, 1) == 1;
  if (!is_first) {
    if (const std::optional<Error> verdict = await_verdict()) return *verdict;
  } else {
    options_.store->set(kHangFound, to_json(Error(ExitCode::kTimeout, waited(hung), kTimeoutHint)));
  }
  std::vector<int64_t> asked = hung.call.peers;
  if (asked.empty()) asked = hung.group.members;
  std::erase(asked, options_.rank);
  const Error verdict = judged(hung, asked, collect(asked, is_first ? kCallsAnswer : kStorePoll));
  options_.store->set(kVerdict, to_json(verdict));
  return verdict;
}

Error HangReport::of_waiting(const HungCall& hung, const RankCalls& own) const {
  try {
    const auto ask = [self = *this, hung, own] { return self.ask_ranks(hung, own); };
    if (const std::optional<Error> verdict = call_within(kCallsAnswer + kStoreAnswer, ask)) {
      await_readers();
      return *verdict;
    }
  } catch (const std::exception&) {
    // The connection to the store is lost.
  }
  return of_alone(waited(hung));
}

Error HangReport::of_other(const RankCalls& own) const {
  const auto ask = [self = *this, own] {
    self.options_.store->set(calls_key(self.options_.rank), to_json(own));
    const std::optional<Error> verdict = self.await_verdict();
    return verdict ? *verdict : error_of(self.options_.store->get_to_str(kHangFound));
  };
  try {
    if (const std::optional<Error> verdict = call_within(kCallsAnswer + kStoreAnswer, ask)) {
      await_readers();
      return *verdict;
    }
  } catch (const std::exception&) {
    // The connection to the store is lost.
  }
  return of_alone(
      text("{} was asked about a collective that hangs", options_.ranks->name(options_.rank)));
}

}  // namespace accel
