#include "track/record.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/log.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"
#include "track/run_names.h"

namespace accel {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kLineStart = "{\"step\":";

void add(std::string& line, std::string_view key, int64_t value) {
  char text[24];
  line += key;
  line.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

/// As json_number().
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

/// Fields of a step line, inputs before results.
constexpr std::pair<const char*, const char*> kQuantities[] = {{"epoch", "epoch"},
                                                               {"samples", "samples"},
                                                               {"ids", "the digest of the samples"},
                                                               {"lr", "lr"},
                                                               {"loss", "loss"},
                                                               {"loss_bits", "loss, in bits,"},
                                                               {"grad_norm", "grad_norm"},
                                                               {"skipped", "skipped"}};

/// The lines that are identical between equal runs: steps and evaluations.
std::vector<Json> exact_lines(const std::string& path) {
  std::ifstream in = open_regular_file(path);
  if (!in) throw IoError(text("cannot read '{}'", path));
  std::vector<Json> lines;
  int64_t damaged = 0;
  for (std::string line; std::getline(in, line);) {
    Json parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("step")) {
      damaged += !in.eof();  // a torn last line is of a crash
      continue;
    }
    if (parsed.contains("loss_bits") || parsed.contains("eval")) lines.push_back(std::move(parsed));
  }
  if (damaged > 0) {
    warn(text("'{}' has damaged lines, which are not compared: {}", path, damaged));
  }
  return lines;
}

std::string both(const std::string& name, const Json& a, const Json& b) {
  const auto shown = [](const Json& value) { return value.is_null() ? "missing" : value.dump(); };
  return text("{} is {} and {}", name, shown(a), shown(b));
}

std::string at(const Json& line) {
  return "step " + line["step"].dump();
}

/// The difference between two unequal lines.
std::string difference(const Json& a, const Json& b) {
  if (a["step"] != b["step"]) return at(a) + " against " + at(b);
  if (a.contains("eval") != b.contains("eval")) {
    return at(a) + ": an evaluation is only in the " + (a.contains("eval") ? "first" : "second");
  }
  const auto field = [](const Json& line, const std::string& key) {
    return line.contains(key) ? line[key] : Json();
  };
  for (const auto& [key, label] : kQuantities) {
    if (field(a, key) != field(b, key))
      return at(a) + ": " + both(label, field(a, key), field(b, key));
  }
  const Json first = field(a, "eval"), second = field(b, "eval");
  for (const auto& [name, value] : first.items()) {
    if (value != field(second, name)) return at(a) + ": " + both(name, value, field(second, name));
  }
  return at(a) + ": the sets of values differ";
}

}  // namespace

RunRecord::RunRecord(const std::string& path, int64_t first_step,
                     const std::optional<RecordMark>& mark, bool eval_pending)
    : rewound_(rewind_record(path, first_step, mark, eval_pending)),
      file_(std::make_unique<AppendFile>(path)) {}

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

void RunRecord::about(int64_t step, const ConfigValues& texts) {
  std::string line = start_of_line(step) + ",\"about\":{";
  for (const auto& [name, text] : texts) {
    line += (line.back() == '{' ? "" : ",") + json_text(name) + ':' + json_text(text);
  }
  append(line + "}}\n");
}

void RunRecord::event(int64_t step, const std::string& name, const std::string& text) {
  append(start_of_line(step) + ",\"event\":" + json_text(name) + ",\"text\":" + json_text(text) +
         ",\"time\":\"" + utc_now("%Y-%m-%dT%H:%M:%SZ") + "\"}\n");
}

void RunRecord::measurements(int64_t step, const char* key, std::span<const Measurement> values) {
  std::string line = start_of_line(step) + ",\"" + key + "\":{";
  for (const auto& [name, value] : values) {
    line += (line.back() == '{' ? "" : ",") + json_text(name) + ':' + json_number(value);
  }
  append(line + "}}\n");
}

std::optional<std::string> first_difference(const std::string& record_a,
                                            const std::string& record_b) {
  const std::vector<Json> a = exact_lines(record_a), b = exact_lines(record_b);
  const auto [first, second] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (first != a.end() && second != b.end()) return difference(*first, *second);
  if (first != a.end()) return at(*first) + " and later are only in the first";
  if (second != b.end()) return at(*second) + " and later are only in the second";
  return std::nullopt;
}

}  // namespace accel
