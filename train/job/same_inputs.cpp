#include "train/job/same_inputs.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/operations.h"
#include "train/job/rank_inputs.h"

namespace accel {
namespace {

using Json = nlohmann::json;

/// The message of a rank: its process, and its inputs or the error of reading them.
struct RankMessage {
  std::string process;
  std::string inputs;
  std::optional<Error> error;
};

std::string this_process() {
  return host_name() + ", process " + std::to_string(getpid());
}

/// The error as it is sent to the other ranks.
Error plain_error(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const ExitCode other = is_out_of_memory(error) ? ExitCode::kMemory : ExitCode::kOther;
  return Error(ours ? ours->code() : other, error.what(), ours ? ours->hint() : "");
}

std::string text_of(const RankMessage& message) {
  Json out = {{"process", message.process}, {"inputs", message.inputs}};
  if (message.error) {
    out["error"] = {message.error->code(), message.error->what(), message.error->hint()};
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankMessage message_of(const std::string& text) {
  const Json in = Json::parse(text);
  RankMessage message{in.at("process"), in.at("inputs"), {}};
  if (in.contains("error")) {
    const Json& error = in["error"];
    message.error.emplace(error.at(0).get<ExitCode>(), error.at(1).get<std::string>(),
                          error.at(2).get<std::string>());
  }
  return message;
}

/// Throws `own` when all ranks have it, else the first rank's error.
void check_errors(const std::vector<RankMessage>& messages, const std::exception_ptr& own) {
  const auto failed =
      std::find_if(messages.begin(), messages.end(),
                   [](const RankMessage& message) { return message.error.has_value(); });
  if (failed == messages.end()) return;
  const std::string what = failed->error->what();
  const bool shared = std::all_of(messages.begin(), messages.end(), [&](const RankMessage& each) {
    return each.error && each.error->what() == what;
  });
  if (shared) std::rethrow_exception(own);
  throw Error(
      failed->error->code(),
      text("rank {} ({}) cannot start: {}", failed - messages.begin(), failed->process, what),
      failed->error->hint());
}

bool permits(const std::vector<std::string>& allowed, const std::string& key) {
  return !key.empty() && std::any_of(allowed.begin(), allowed.end(), [&](const std::string& name) {
    return key == name || key.starts_with(name + ".") || name.starts_with(key + ".");
  });
}

/// A rank whose inputs differ from those of rank 0.
struct Mismatch {
  size_t rank = 0;
  std::vector<InputDifference> differences;

  bool permitted(const std::vector<std::string>& allowed) const {
    return std::all_of(differences.begin(), differences.end(),
                       [&](const InputDifference& each) { return permits(allowed, each.consent); });
  }
};

std::vector<Mismatch> mismatches_of(const std::vector<RankMessage>& messages) {
  std::vector<Mismatch> found;
  for (size_t rank = 1; rank < messages.size(); ++rank) {
    // Equal texts are the rule.
    if (messages[rank].inputs == messages[0].inputs) continue;
    auto list = differences(inputs_from(messages[0].inputs), inputs_from(messages[rank].inputs));
    if (!list.empty()) found.push_back({rank, std::move(list)});
  }
  return found;
}

/// The differences of one rank, and the other ranks that differ.
std::string describe(const std::vector<RankMessage>& messages, const Mismatch& shown,
                     const std::vector<Mismatch>& all) {
  std::string lines = text("rank {} ({}) has read other inputs than rank 0 ({}):", shown.rank,
                           messages[shown.rank].process, messages[0].process);
  for (const InputDifference& each : shown.differences) lines += "\n  " + each.text;
  std::vector<std::string> others;
  for (const Mismatch& each : all) {
    if (each.rank != shown.rank) others.push_back(std::to_string(each.rank));
  }
  if (others.empty()) return lines;
  return lines + text("\n  these ranks differ from rank 0 too: {}", joined(others));
}

std::string hint_for(const std::vector<InputDifference>& differences) {
  std::string keys;
  for (const InputDifference& each : differences) {
    if (each.consent.empty()) return "give all machines the same files";
    const std::string option = " --allow " + each.consent;
    if ((keys + " ").find(option + " ") == keys.npos) keys += option;
  }
  return text("give all machines the same files, or add{} if they are meant to differ", keys);
}

}  // namespace

void read_same_inputs(Job& job, const std::vector<std::string>& allowed,
                      const std::function<void()>& read) {
  if (job.num_ranks == 1) return read();
  RankMessage own{this_process(), "", {}};
  std::exception_ptr failure;
  try {
    read();
    own.inputs = text_of(inputs_of(job));
  } catch (const std::exception& error) {
    failure = std::current_exception();
    own.error = plain_error(error);
  }
  std::vector<RankMessage> messages;
  for (const std::string& each : gather_texts(*job.mesh.world, text_of(own))) {
    messages.push_back(message_of(each));
  }
  check_errors(messages, failure);
  const std::vector<Mismatch> found = mismatches_of(messages);
  for (const Mismatch& each : found) {
    if (each.permitted(allowed)) continue;
    throw DataError(describe(messages, each, found), hint_for(each.differences));
  }
  if (job.is_main && !found.empty()) {
    warn(text("as --allow permits, {}", describe(messages, found.front(), found)));
  }
}

}  // namespace accel
