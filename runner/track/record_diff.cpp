#include "runner/track/record_diff.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/error.h"

namespace accel {
namespace {

using Json = nlohmann::json;

/// What a step line says, causes first.
constexpr std::pair<const char*, const char*> kQuantities[] = {{"epoch", "epoch"},
                                                               {"samples", "samples"},
                                                               {"ids", "the digest of the samples"},
                                                               {"lr", "lr"},
                                                               {"loss", "loss"},
                                                               {"loss_bits", "loss, in bits,"},
                                                               {"grad_norm", "grad_norm"},
                                                               {"skipped", "skipped"}};

/// The lines of a record that equal runs share: those of steps and evaluations.
std::vector<Json> exact_lines(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw IoError("cannot read '" + path + "'");
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    Json parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("step")) continue;  // torn by a crash
    if (parsed.contains("loss_bits") || parsed.contains("eval")) lines.push_back(std::move(parsed));
  }
  return lines;
}

std::string both(const std::string& name, const Json& a, const Json& b) {
  const auto shown = [](const Json& value) { return value.is_null() ? "missing" : value.dump(); };
  return name + " is " + shown(a) + " and " + shown(b);
}

std::string at(const Json& line) {
  return "step " + line["step"].dump();
}

/// Of two lines that are not equal.
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
  return at(a) + ": another set of values";
}

}  // namespace

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
