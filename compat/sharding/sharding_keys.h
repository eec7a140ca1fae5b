// Options of FSDP, DeepSpeed, ParallelismConfig and Megatron-LM with their effect here: one table
// for config files, environment variables, flags and imports.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/node.h"

namespace accel {

/// The effect of some values of an option. Empty values, none and auto have no effect.
struct ShardingKey {
  enum class Effect {
    kSame,      ///< what happens here anyway
    kSets,      ///< sets the recipe's options `says`: "a.b=2 a.c=3"; without '=' to the value
    kSteps,     ///< sets the option `says` to the value as a number of steps
    kPower,     ///< sets the option `says` to 2 to the power of the value
    kInteger,   ///< sets the option `says` to a value such as 1e8
    kPatterns,  ///< sets the option `says` to name patterns, from a regular expression
    kBlocks,    ///< class names of blocks; unknown ones are refused
    kFile,      ///< the path of a DeepSpeed file, which is read too
    kNoEffect,  ///< a warning; `says` is the reason
    kRefused,   ///< an error; `says` is the reason
  };

  /// Without the prefix of its family; `*` at its end is any end.
  std::string_view name;
  /// In lower case between spaces. "true", "false": any spelling; "*": any; "number": any number.
  std::string_view values;
  Effect effect;
  std::string_view says = "";
  std::string_view hint = "";
  /// The option and value on which the option depends, "fp16.enabled=true"; otherwise unused.
  std::string_view only_with = "";
};

/// A difference to the other trainer that it does not report.
struct ShardingRemark {
  std::string_view when;  ///< options with values, between spaces: "use_cpu=true"
  std::string_view text;
};

/// Options with a common prefix.
struct ShardingFamily {
  std::string_view type;         ///< of `distributed_type`: "FSDP"
  std::string_view section;      ///< of a config file: "fsdp_config"
  std::string_view prefix;       ///< of keys, which may have it: "fsdp_"
  std::string_view flag_prefix;  ///< of flags, which have it: "fsdp_"
  std::string_view variables;    ///< prefix of variables: "FSDP_"
  std::string_view switch_name;  ///< "USE_FSDP": ACCELERATE_USE_FSDP and --use_fsdp
  std::span<const ShardingKey> keys = {};
  std::span<const ShardingRemark> remarks = {};
};

extern const ShardingFamily kFsdpFamily;
extern const ShardingFamily kDeepSpeedFamily;
extern const ShardingFamily kParallelismFamily;
extern const ShardingFamily kMegatronFamily;
/// DeepSpeed's own file; names are dotted: "zero_optimization.stage".
extern const ShardingFamily kDeepSpeedFile;

/// The families of Accelerate's configs.
std::span<const ShardingFamily* const> sharding_families();

namespace reasons {
constexpr std::string_view kPipeline = "stages are those of 'accelerator.pipeline'";
constexpr std::string_view kContextParallel = "context parallelism needs no sharding here";
constexpr std::string_view kExpertTensor =
    "the experts' layers are divided by 'accelerator.parallelism.tp'";
constexpr std::string_view kWholeBlocks = "the experts of a block are always gathered together";
constexpr std::string_view kTpu = "accel-run does not support TPUs";
constexpr std::string_view kCompile = "libtorch has no torch.compile";
}  // namespace reasons

/// The row of an option's value. `key` null: no such option; `row` null: no such value.
struct ShardingMatch {
  const ShardingKey* key = nullptr;
  const ShardingKey* row = nullptr;
};

/// Finds `name`, with or without the family's prefix.
ShardingMatch match_option(const ShardingFamily& family, std::string_view name, const Node& value);

/// The names of the family's options, each once, without wildcards.
std::vector<std::string> option_names(const ShardingFamily& family);

/// The values that the option accepts, with commas.
std::string option_values(const ShardingFamily& family, std::string_view name);

/// Whether a value is null, empty, none or auto.
bool is_left_open(const Node& value);

/// Whether a value is one of `values`, as in ShardingKey::values.
bool has_value(std::string_view values, const Node& value);

/// Class names of blocks in transformers whose models accel-run has.
std::span<const std::string_view> block_classes();

}  // namespace accel
