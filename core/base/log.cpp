#include "core/base/log.h"

// Header-only: an installed tree then needs no spdlog or fmt library.
#ifndef SPDLOG_HEADER_ONLY
#define SPDLOG_HEADER_ONLY
#endif
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "core/base/url.h"

namespace accel {
namespace {

using SinkPtr = std::shared_ptr<spdlog::sinks::sink>;

struct Console {
  SinkPtr out = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  SinkPtr err = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  SinkPtr file;
  std::recursive_mutex mutex;
  void (*redraw)(bool) = nullptr;
  bool silent = false;
  bool quiet = false;
  bool json = false;  // of warnings
  Verbosity verbosity = Verbosity::kNormal;

  Console() {
    out->set_pattern("%v");
    err->set_pattern("%v");
  }
};

/// The lines of standard output that quiet output drops, and the others.
enum class Importance { kNote, kLine, kResult, kWarning };

Console& console() {
  static Console instance;
  return instance;
}

/// Writes to the log file. Returns the error of a failed write, after which the file is closed.
std::string copy(const spdlog::details::log_msg& message) {
  SinkPtr& file = console().file;
  try {
    file->log(message);
    file->flush();
    return {};
  } catch (const spdlog::spdlog_ex& error) {
    file.reset();
    return error.what();
  }
}

bool is_shown(const Console& to, Importance importance) {
  if (to.silent) return false;
  if (importance == Importance::kWarning) return true;
  if (to.quiet) return false;
  if (importance == Importance::kResult) return true;
  return importance == Importance::kNote ? to.verbosity == Verbosity::kVerbose
                                         : to.verbosity != Verbosity::kQuiet;
}

/// Writes `given_line` to the file and `given` to the terminal.
void write(Importance importance, const std::string& given_line, const std::string& given) {
  const std::string line = without_passwords(given_line), shown = without_passwords(given);
  Console& to = console();
  const std::lock_guard lock(to.mutex);
  if (to.redraw) to.redraw(false);
  const bool warns = importance == Importance::kWarning;
  const auto level = warns ? spdlog::level::warn : spdlog::level::info;
  const spdlog::details::log_msg message("", level, line);
  if (is_shown(to, importance)) {
    const SinkPtr& sink = warns ? to.err : to.out;
    sink->log({"", level, shown});
    sink->flush();
  }
  const std::string lost = to.file ? copy(message) : "";
  if (to.redraw) to.redraw(true);
  if (!lost.empty()) warn("the log file is closed after a failed write: " + lost);
}

void write_title(Importance importance, const std::string& line) {
  write(importance, line, is_colored(STDOUT_FILENO) ? inked(Ink::kTitle, line) : line);
}

/// A warning as text for people or as JSON.
void write_warning(const std::string& line, const std::string& text, const std::string& json) {
  const bool colored = !console().json && is_colored(STDERR_FILENO);
  write(Importance::kWarning, line,
        console().json ? json : (colored ? colored_report(text) : text));
}

}  // namespace

void say(const std::string& line) {
  write(Importance::kLine, line, line);
}

void say_title(const std::string& line) {
  write_title(Importance::kLine, line);
}

void say_result(const std::string& line) {
  write(Importance::kResult, line, line);
}

void say_result_title(const std::string& line) {
  write_title(Importance::kResult, line);
}

void say_note(const std::string& line) {
  if (console().verbosity == Verbosity::kVerbose) write(Importance::kNote, line, line);
}

void warn(const std::string& line) {
  write_warning(line, "warning: " + line,
                "{\"severity\": \"warning\", \"message\": " + json_text(line) + "}");
}

void print_warning(const std::string& text, const std::string& json) {
  const auto line = [](const std::string& ended) { return ended.substr(0, ended.size() - 1); };
  write_warning(line(text), line(text), line(json));
}

void warn_as_json(bool on) {
  console().json = on;
}

void be_silent(bool on) {
  console().silent = on;
}

void be_quiet(bool on) {
  console().quiet = on;
}

void choose_verbosity(Verbosity verbosity) {
  console().verbosity = verbosity;
}

Verbosity verbosity() {
  return console().verbosity;
}

bool is_silent() {
  return console().silent;
}

std::recursive_mutex& console_mutex() {
  return console().mutex;
}

void log_to_file(const std::string& path) {
  try {
    console().file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    console().file->set_pattern("%Y-%m-%dT%H:%M:%S%z %^%L%$ %v");
  } catch (const spdlog::spdlog_ex& e) {
    throw IoError(text("cannot open the log file '{}': {}", path, e.what()));
  }
}

void close_log_file() {
  console().file.reset();
}

void set_line_hook(void (*redraw)(bool draw)) {
  console().redraw = redraw;
}

}  // namespace accel
