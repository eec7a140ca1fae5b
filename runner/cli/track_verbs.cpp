// track flush: sends what trackers left in a run folder.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/submit/shell_word.h"
#include "track/flush.h"

namespace accel {
namespace {

struct FlushArguments {
  std::string run;
  double wait = 30;  ///< seconds
};

/// The command that uploads the files: a program's, or a function of a Python package.
std::string upload_command(const OfflineFiles& files) {
  const std::string command = files.command;
  if (command.find('.') == command.npos) return command + ' ' + shell_word(files.path);
  const std::string module = command.substr(0, command.find('.'));
  return "python -c " + shell_word(text("import {}; {}('{}')", module, command, files.path));
}

ExitCode flush_verb(const FlushArguments& arguments) {
  std::error_code error;
  if (!std::filesystem::is_directory(arguments.run, error)) {
    throw Error(ExitCode::kRecipe, text("'{}' is no run folder", arguments.run),
                "give the folder that 'run' printed, such as runs/NAME");
  }
  const auto patience = std::chrono::milliseconds(static_cast<int64_t>(arguments.wait * 1000));
  const auto outboxes = flush_outboxes(
      arguments.run, {&make_curl_transport, {.end = "'--wait' is over"}, patience, &warn});
  const auto offline = offline_files(arguments.run);
  bool complete = true;
  for (const FlushedOutbox& outbox : outboxes) {
    complete = complete && outbox.unsent.empty();
    const std::string result = !outbox.unsent.empty() ? "not sent: " + outbox.unsent
                               : outbox.was_empty     ? "nothing to send"
                                                      : "sent";
    std::cout << "mlflow: " << outbox.folder << ": " << result << '\n';
  }
  for (const OfflineFiles& files : offline) {
    std::cout << files.tracker << ": upload with: " << upload_command(files) << '\n';
  }
  if (outboxes.empty() && offline.empty()) {
    std::cout << "no tracker of the run has entries for a server\n";
  }
  return complete ? ExitCode::kDone : ExitCode::kIo;
}

}  // namespace

void add_track_verbs(VerbTable& verbs) {
  const auto to = std::make_shared<FlushArguments>();
  CLI::App& group = verbs.add_group("track", "send what trackers kept while offline");
  CLI::App& verb = verbs.add(
      group, "flush",
      "send the entries that a tracker's server did not accept during the run, and show how to "
      "upload the files of the others",
      [to] { return flush_verb(*to); });
  verb.add_option("run", to->run, "a run folder")->required();
  verb.add_option("--wait", to->wait,
                  "seconds without an accepted entry after which it ends; default: 30");
}

}  // namespace accel
