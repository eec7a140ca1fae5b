// estimate-memory.
#include <array>
#include <cstdio>
#include <iostream>
#include <map>

#include "runner/cli/verbs.h"
#include "runner/formats/hf_weights.h"
#include "runner/formats/model_sizes.h"

namespace accel {
namespace {

/// Bytes of a number, and of what training with Adam takes for each; 0: it is not trained so.
struct NumberType {
  double stored;
  double trained;
};

/// As Accelerate counts them: in float32 weights, gradients and two moments; in float16 the largest
/// part, the moments in float32.
const std::map<std::string, NumberType>& number_types() {
  static const std::map<std::string, NumberType> kTypes = {
      {"float32", {4, 16}}, {"float16", {2, 8}}, {"int8", {1, 0}}, {"int4", {0.5, 0}}};
  return kTypes;
}

std::string size_cell(double bytes) {
  constexpr std::array kUnits = {"bytes", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2f %s", bytes, kUnits[unit]);
  return text.data();
}

void print_row(const std::array<std::string, 4>& cells) {
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(), "%-8s  %14s  %12s  %19s\n", cells[0].c_str(),
                cells[1].c_str(), cells[2].c_str(), cells[3].c_str());
  std::cout << line.data();
}

}  // namespace

std::vector<std::string> estimate_types() {
  return {"float32", "float16", "int8", "int4"};
}

ExitCode estimate_verb(const std::string& folder, const std::vector<std::string>& types) {
  const HfWeights weights(folder);
  const ModelSizes sizes = model_sizes(weights.tensors());
  std::cout << "memory for '" << folder << "': " << sizes.total
            << " numbers, the largest layer is '" << sizes.largest_layer << "'\n";
  print_row({"dtype", "largest layer", "total size", "training using Adam"});
  for (const std::string& name : types.empty() ? estimate_types() : types) {
    const NumberType& type = number_types().at(name);
    const auto total = static_cast<double>(sizes.total);
    print_row({name, size_cell(static_cast<double>(sizes.largest) * type.stored),
               size_cell(total * type.stored),
               type.trained > 0 ? size_cell(total * type.trained) : "N/A"});
  }
  return ExitCode::kDone;
}

}  // namespace accel
