// Errors at the options of the recipe's `accelerator` section.
#pragma once

#include <cstdint>
#include <string>

#include "core/recipe/schema.h"

namespace accel {

struct AcceleratorSection;

/// Of a run, and along an axis of the mesh.
constexpr int64_t kMostProcesses = 65536;

/// Reports errors at options of the section. Checks compare values, not presence: a resolved recipe
/// has every option.
class SectionCheck {
 public:
  SectionCheck(const Node& node, Reading& reading) : node_(node), reading_(reading) {}

  void error(const char* key, const std::string& message, const std::string& hint) {
    const Node::Entry* entry = node_.find(key);
    // For a section, the position of its key.
    const Span& where = !entry ? node_.where : entry->node.map() ? entry->where : entry->node.where;
    reading_.problems.error(where, message, hint);
  }

 private:
  const Node& node_;
  Reading& reading_;
};

/// Errors of `fp8`.
void check_fp8_section(const AcceleratorSection& section, SectionCheck& check);
/// Errors of `fsdp` and the data axes of `parallelism`.
void check_fsdp_section(const AcceleratorSection& section, SectionCheck& check);
/// Errors of `parallelism.tp`.
void check_tensor_parallel(const AcceleratorSection& section, SectionCheck& check);
/// Errors of `parallelism.ep`.
void check_expert_parallel(const AcceleratorSection& section, SectionCheck& check);
/// Errors of `parallelism.cp` and `sp`.
void check_context_parallel(const AcceleratorSection& section, SectionCheck& check);
/// Errors of `parallelism.pp` and `pipeline`.
void check_pipeline_section(const AcceleratorSection& section, SectionCheck& check);

}  // namespace accel
