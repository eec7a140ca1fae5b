// Methods of preference training that several formats have: DPO and its losses, ORPO, SimPO, KTO,
// reward models.
#pragma once

#include <optional>
#include <string>

#include "compat/trainers/data_readings.h"
#include "compat/trainers/import_recipe.h"

namespace accel {

struct PreferenceMethod {
  std::string task;       ///< "dpo"
  std::string loss_type;  ///< of the tasks dpo and kto; else ""

  bool is_unpaired() const { return task == "kto"; }
  bool has_reference() const { return task == "dpo" || task == "kto"; }
};

/// The method of a word such as "ipo" or "simpo"; none for methods that accel-run lacks.
std::optional<PreferenceMethod> preference_method(const std::string& word);

/// Keys of a trainer for the options of these tasks, "" where it has none, and its defaults.
struct PreferenceKeys {
  const char* beta = "beta";
  double default_beta = 0.1;
  const char* label_smoothing = "label_smoothing";
  bool smooths_sigmoid = true;  ///< label smoothing changes the sigmoid loss
  const char* gamma = "simpo_gamma";
  double default_gamma = 0.5;
  const char* sft_weight = "";  ///< of the tasks dpo and simpo
  double default_simpo_sft_weight = 0;
  const char* desirable_weight = "desirable_weight";
  const char* undesirable_weight = "undesirable_weight";
};

/// The kind of a dataset of the method.
DataFile::Kind kind_of_data(const PreferenceMethod& method);

/// Writes the task, with the recipe's model as reference unless it has an adapter. Takes `key`,
/// which named the method, if the config has it. After the model and the adapter are read.
void read_preference_task(TrainerConfig& config, const PreferenceMethod& method,
                          const PreferenceKeys& keys, const char* key);

}  // namespace accel
