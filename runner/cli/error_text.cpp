#include "runner/cli/error_text.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <system_error>

#include "core/base/files.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/recipe/diagnostic.h"
#include "core/recipe/located_error.h"
#include "runner/launch/outward_signs.h"

namespace accel {
namespace {

/// What std::thread throws. Other errors with this number name a file.
bool is_thread_failure(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system && system->code() == std::errc::resource_unavailable_try_again &&
         !dynamic_cast<const FileError*>(&error);
}

}  // namespace

std::string error_text(const Error& error, bool json) {
  std::string text;
  if (const auto* recipe = dynamic_cast<const RecipeError*>(&error)) {
    for (const Diagnostic& problem : recipe->diagnostics()) {
      text += json ? render_json(problem) : render(problem);
    }
    return text;
  }
  if (const auto* located = dynamic_cast<const LocatedError*>(&error)) {
    return json ? render_json(located->problem()) : render(located->problem());
  }
  if (json) return render_json({{}, error.what(), error.hint()});
  text = "error: ";
  text.append(error.what()).append("\n");
  if (!error.hint().empty()) text.append("  hint: ").append(error.hint()).append("\n");
  return without_passwords(text);
}

std::string error_text(const std::exception& error, bool json) {
  if (is_out_of_memory(error)) {
    return error_text(Error(ExitCode::kMemory, "out of memory",
                            "lower 'train.micro_batch' or the size of the model"),
                      json);
  }
  if (is_thread_failure(error)) {
    return error_text(Error(ExitCode::kMemory, text("cannot start a thread: {}", error.what()),
                            "raise 'ulimit -u' and 'ulimit -v', or set a smaller "
                            "'accelerator.num_cpu_threads_per_process'"),
                      json);
  }
  std::string message = error.what();
  for (const char* trace : {"\nException raised from", "\nframe #"}) {
    message.resize(std::min(message.size(), message.find(trace)));
  }
  return error_text(Error(ExitCode::kOther, message), json);
}

void print_error(const std::string& text) {
  const bool colored = !text.starts_with('{') && is_colored(STDERR_FILENO);
  std::cerr << (colored ? colored_report(text) : text);
  write_termination_message(text);
}

std::string whole_lines(const std::string& json, size_t bytes) {
  if (json.size() <= bytes) return json;
  const size_t end = json.rfind('\n', bytes - 1);
  if (end != std::string::npos) return json.substr(0, end + 1);
  // Each quote takes two bytes when escaped again.
  return render_json(
      {{}, "an error message is too long; it begins with " + json.substr(0, bytes / 4), {}});
}

ExitCode exit_code_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return ours->code();
  return is_out_of_memory(error) || is_thread_failure(error) ? ExitCode::kMemory : ExitCode::kOther;
}

}  // namespace accel
