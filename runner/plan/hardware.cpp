#include "runner/plan/hardware.h"

#include <array>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// NVIDIA's data sheets of the SXM modules. Networks: 200 Gb/s per GPU beside A100, else 400 Gb/s.
const std::array<Hardware, 5>& known_hardware() {
  static const std::array<Hardware, 5> kKnown = {{
      {"a100-40gb", 40e9, 312e12, 19.5e12, 1.555e12, 8, 300e9, 25e9},
      {"a100", 80e9, 312e12, 19.5e12, 2.039e12, 8, 300e9, 25e9},
      {"h100", 80e9, 989e12, 67e12, 3.35e12, 8, 450e9, 50e9},
      {"h200", 141e9, 989e12, 67e12, 4.8e12, 8, 450e9, 50e9},
      {"b200", 180e9, 2250e12, 75e12, 8e12, 8, 900e9, 50e9},
  }};
  return kKnown;
}

struct Rate {
  const char* name;
  double Hardware::*value;
};

constexpr std::array<Rate, 6> kRates = {{{"memory", &Hardware::memory},
                                         {"flops_16bit", &Hardware::flops_16bit},
                                         {"flops_fp32", &Hardware::flops_fp32},
                                         {"memory_bandwidth", &Hardware::memory_bandwidth},
                                         {"link", &Hardware::link},
                                         {"network", &Hardware::network}}};
constexpr const char* kRanksPerMachine = "ranks_per_machine";

std::vector<std::string> value_names() {
  std::vector<std::string> names;
  for (const Rate& rate : kRates) names.emplace_back(rate.name);
  names.emplace_back(kRanksPerMachine);
  return names;
}

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kRecipe, what, hint);
}

void change(Hardware& hardware, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string hint =
      text("change {} with a number, such as 'memory=94e9'", joined(value_names()));
  if (equals == word.npos) refuse(text("'--hardware' has '{}', not NAME=NUMBER", word), hint);
  char* end = nullptr;
  const double number = std::strtod(word.c_str() + equals + 1, &end);
  if (equals + 1 == word.size() || *end != '\0' || !(number > 0) || number > 1e18) {
    refuse(text("'--hardware' has '{}', whose value is not a positive number", word), hint);
  }
  if (name == kRanksPerMachine) {
    hardware.ranks_per_machine = static_cast<int64_t>(number);
    if (static_cast<double>(hardware.ranks_per_machine) != number) {
      refuse(text("'--hardware' has '{}', not a number of ranks", word), hint);
    }
    return;
  }
  for (const Rate& rate : kRates) {
    if (name != rate.name) continue;
    hardware.*rate.value = number;
    return;
  }
  refuse(text("'--hardware' has '{}', and hardware has no '{}'", word, name), hint);
}

}  // namespace

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const Hardware& hardware : known_hardware()) names.push_back(hardware.name);
  return names;
}

Hardware hardware_of(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "" : words.front();
  for (const Hardware& known : known_hardware()) {
    if (known.name != name) continue;
    Hardware hardware = known;
    for (size_t i = 1; i < words.size(); ++i) change(hardware, words[i]);
    return hardware;
  }
  refuse(text("'--hardware' has '{}', which is not known", name),
         text("give {}, and change what differs: '--hardware h100 memory=94e9'",
              joined(hardware_names())));
}

}  // namespace accel
