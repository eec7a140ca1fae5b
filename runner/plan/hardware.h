// Processors and networks that a plan estimates step times for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// A processor and the connections of a rank on it. Rates are those of the data sheets, of dense
/// products and of one direction.
struct Hardware {
  std::string name;
  double memory = 0;            ///< bytes
  double flops_16bit = 0;       ///< per second, of matrix products in bf16 or fp16
  double flops_fp32 = 0;        ///< per second, of matrix products in fp32
  double memory_bandwidth = 0;  ///< bytes per second
  int64_t ranks_per_machine = 8;
  double link = 0;     ///< bytes per second of a rank to the others of its machine
  double network = 0;  ///< bytes per second of a rank to other machines
};

/// Names with their values, for help.
std::vector<std::string> hardware_names();

/// A name, then changes: {"h100", "memory=94e9", "ranks_per_machine=4"}. Throws Error (kRecipe).
Hardware hardware_of(const std::vector<std::string>& words);

}  // namespace accel
