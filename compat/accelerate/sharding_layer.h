// Options of FSDP, DeepSpeed and ParallelismConfig of Accelerate as a layer of a recipe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/sharding/apply_sharding.h"

namespace accel {

/// Collects the options of one place, and then writes them to its layer.
class ShardingLayer {
 public:
  enum class Place { kConfig, kEnvironment, kFlags };

  ShardingLayer(CompatLayer& layer, Place place) : layer_(layer), place_(place) {}

  void add(const ShardingFamily& family, ShardingOption option);
  /// `option` enables the family: `distributed_type: FSDP`, `--use_fsdp`.
  void enable(const ShardingFamily& family, ShardingOption option);
  /// A value on which options depend, such as "num_machines".
  void set_fact(const std::string& name, const std::string& value) { facts_[name] = value; }

  /// Writes the options. Flags act alone too, other options only when their family is enabled.
  void finish();

  std::vector<std::string> take_remarks() { return std::move(remarks_); }

 private:
  void finish_family(const ShardingFamily& family);
  void warn_unused(const ShardingFamily& family, const std::vector<ShardingOption>& options);

  CompatLayer& layer_;
  Place place_;
  std::map<const ShardingFamily*, std::vector<ShardingOption>> options_;
  std::map<const ShardingFamily*, ShardingOption> enabled_;
  std::map<std::string, std::string> facts_;
  std::vector<std::string> remarks_;
};

}  // namespace accel
