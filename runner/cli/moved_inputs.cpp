#include "runner/cli/moved_inputs.h"

#include "runner/job/missing_inputs.h"

namespace accel {
namespace {

std::vector<MissingInput> missing_of(const TrainedModel& trained, const char* part) {
  const Node::Entry* data = trained.resolved.find("data");
  const Node::Entry* found = data ? data->node.find(part) : nullptr;
  if (!found || found->node.null()) return {};
  return missing_inputs(found->node, "dataset", *trained.registry);
}

std::string data_hint(const MissingInput& missing) {
  return "say where it is now: --data " + missing.option + "=...";
}

}  // namespace

void require_eval_data(const TrainedModel& trained) {
  for (const MissingInput& missing : missing_of(trained, "eval")) {
    throw DataError("of the eval data " + missing.message, data_hint(missing));
  }
}

void require_input(const TrainedModel& trained, const Node& dataset) {
  for (const MissingInput& missing : missing_inputs(dataset, "dataset", *trained.registry)) {
    if (missing.option != "path") throw DataError(missing.message, data_hint(missing));
    std::string message = missing.message;
    message.replace(0, std::string("'path'").size(), "'--input'");
    throw DataError(message, missing.hint);
  }
}

void require_tokenizer(const TrainedModel& trained) {
  for (const MissingInput& missing : missing_of(trained, "train")) {
    if (missing.option != "tokenizer") continue;
    throw DataError(missing.message, "name one with --tokenizer");
  }
}

}  // namespace accel
