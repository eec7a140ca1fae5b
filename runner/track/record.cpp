#include "runner/track/record.h"

#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>

#include "core/json_text.h"
#include "runner/track/rewind.h"

namespace accel {
namespace {

constexpr std::string_view kLineStart = "{\"step\":";

std::optional<int64_t> step_of_json_line(std::string_view line) {
  if (!line.starts_with(kLineStart) || !line.ends_with('}')) return std::nullopt;
  int64_t step = 0;
  const char* digits = line.data() + kLineStart.size();
  const auto [end, error] = std::from_chars(digits, line.data() + line.size(), step);
  if (error != std::errc() || (*end != ',' && *end != '}')) return std::nullopt;
  return step;
}

/// The file, cut back to `first_step`, ready to be appended to.
const std::string& rewound(const std::string& path, int64_t first_step) {
  constexpr int64_t kBeforeAnything = -1;
  rewind_lines(path, first_step > 0 ? first_step : kBeforeAnything, &step_of_json_line);
  return path;
}

void add(std::string& line, std::string_view key, int64_t value) {
  char text[24];
  line += key;
  line.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

/// As json_number() writes it.
void add(std::string& line, std::string_view key, double value) {
  char text[32];
  line += key;
  if (!std::isfinite(value)) {
    line += "null";
    return;
  }
  line.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

void add_hex(std::string& line, std::string_view key, uint64_t value) {
  line += key;
  for (int bits = 60; bits >= 0; bits -= 4) line += "0123456789abcdef"[value >> bits & 15];
  line += '"';
}

std::string start_of_line(int64_t step) {
  return std::string(kLineStart) + std::to_string(step);
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

RunRecord::RunRecord(const std::string& path, int64_t first_step)
    : file_(std::make_unique<AppendFile>(rewound(path, first_step))) {}

void RunRecord::step(const StepRecord& record) {
  line_.clear();
  add(line_, kLineStart, record.step);
  add(line_, ",\"epoch\":", record.epoch);
  add(line_, ",\"samples\":", record.samples);
  add(line_, ",\"loss\":", record.loss);
  add_hex(line_, ",\"loss_bits\":\"", std::bit_cast<uint64_t>(record.loss));
  if (record.grad_norm) add(line_, ",\"grad_norm\":", *record.grad_norm);
  add(line_, ",\"lr\":", record.lr);
  add_hex(line_, ",\"ids\":\"", record.ids_digest);
  if (record.skipped) line_ += ",\"skipped\":true";
  line_ += "}\n";
  append(line_);
}

void RunRecord::evaluation(int64_t step, std::span<const Measurement> results) {
  measurements(step, "eval", results);
}

void RunRecord::log(int64_t step, std::span<const Measurement> values) {
  measurements(step, "log", values);
}

void RunRecord::use(int64_t step, std::span<const Measurement> values) {
  measurements(step, "use", values);
}

void RunRecord::plan(int64_t step, std::span<const Measurement> values) {
  measurements(step, "plan", values);
}

void RunRecord::actual(int64_t step, std::span<const Measurement> values) {
  measurements(step, "actual", values);
}

void RunRecord::about(int64_t step, const ConfigValues& texts) {
  std::string line = start_of_line(step) + ",\"about\":{";
  for (const auto& [name, text] : texts) {
    line += (line.back() == '{' ? "" : ",") + json_text(name) + ':' + json_text(text);
  }
  append(line + "}}\n");
}

void RunRecord::event(int64_t step, const std::string& name, const std::string& text) {
  append(start_of_line(step) + ",\"event\":" + json_text(name) + ",\"text\":" + json_text(text) +
         ",\"time\":\"" + utc_now() + "\"}\n");
}

void RunRecord::measurements(int64_t step, const char* key, std::span<const Measurement> values) {
  std::string line = start_of_line(step) + ",\"" + key + "\":{";
  for (const auto& [name, value] : values) {
    line += (line.back() == '{' ? "" : ",") + json_text(name) + ':' + json_number(value);
  }
  append(line + "}}\n");
}

}  // namespace accel
