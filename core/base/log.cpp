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

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/quiet.h"
#include "core/base/text.h"

namespace accel {
namespace {

using SinkPtr = std::shared_ptr<spdlog::sinks::sink>;

struct Console {
  SinkPtr out = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  SinkPtr err = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  SinkPtr plain_err = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  SinkPtr file;
  void (*redraw)(bool) = nullptr;
  bool silent = false;
  bool quiet = false;
  bool json = false;  // of warnings

  Console() {
    out->set_pattern("%v");
    err->set_pattern("warning: %v");
    plain_err->set_pattern("%v");
  }
};

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

/// Writes `line` to the file and `shown` to the terminal.
void write(const SinkPtr& sink, spdlog::level::level_enum level, const std::string& line,
           const std::string& shown) {
  Console& to = console();
  if (to.redraw) to.redraw(false);
  const spdlog::details::log_msg message("", level, line);
  const bool hidden = to.silent || (to.quiet && level == spdlog::level::info);
  if (!hidden) {
    sink->log({"", level, shown});
    sink->flush();
  }
  const std::string lost = to.file ? copy(message) : "";
  if (to.redraw) to.redraw(true);
  if (!lost.empty()) warn("the log file is closed after a failed write: " + lost);
}

}  // namespace

void say(const std::string& line) {
  write(console().out, spdlog::level::info, line, line);
}

void warn(const std::string& line) {
  const std::string json = "{\"severity\": \"warning\", \"message\": " + json_text(line) + "}";
  write(console().err, spdlog::level::warn, line, console().json ? json : line);
}

void print_warning(const std::string& text, const std::string& json) {
  const auto line = [](const std::string& ended) { return ended.substr(0, ended.size() - 1); };
  write(console().plain_err, spdlog::level::warn, line(text), line(console().json ? json : text));
}

void warn_as_json(bool on) {
  console().json = on;
  console().err->set_pattern(on ? "%v" : "warning: %v");
}

void be_silent(bool on) {
  console().silent = on;
}

void be_quiet(bool on) {
  console().quiet = on;
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
