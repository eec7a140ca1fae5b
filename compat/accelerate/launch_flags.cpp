#include "compat/accelerate/launch_flags.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "compat/accelerate/compat_fp8.h"
#include "compat/accelerate/sharding_layer.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Effect = CompatKey::Effect;

constexpr bool kSwitch = false;  ///< for LaunchFlag::takes_value

constexpr std::string_view kNoModule = "a recipe is a file, not a Python module";
constexpr std::string_view kRankLogs = "only rank 0 prints to the terminal";
constexpr std::string_view kLogHint = "the run's folder has the logs";
constexpr std::string_view kNoRoles = "all ranks have the same role";
constexpr std::string_view kNoRendezvousConf = "the rendezvous has no further options";
constexpr std::string_view kJoin = "set 'accelerator.join_timeout' or 'accelerator.timeout'";

constexpr LaunchFlag kFlags[] = {
    {{"help", Effect::kPlain}, kSwitch},
    {{"h", Effect::kPlain}, kSwitch},
    {{"config_file", Effect::kPlain}},
    {{"config", Effect::kPlain}},
    {{"cpu", Effect::kTurnsOn, "accelerator.device=cpu"}, kSwitch},
    {{"mixed_precision", Effect::kPrecision, "accelerator.mixed_precision"}},
    {{"num_processes", Effect::kSets, "accelerator.num_processes"}},
    {{"num_machines", Effect::kSets, "accelerator.num_machines"}},
    {{"machine_rank", Effect::kSets, "accelerator.machine_rank"}},
    {{"main_process_ip", Effect::kSets, "accelerator.main_process_ip"}},
    {{"main_process_port", Effect::kSets, "accelerator.main_process_port", "0"}},
    {{"num_cpu_threads_per_process", Effect::kSets, "accelerator.num_cpu_threads_per_process"}},
    {{"max_restarts", Effect::kSets, "accelerator.max_restarts"}},
    {{"monitor_interval", Effect::kSets, "accelerator.monitor_interval"}},
    {{"nnodes", Effect::kSets, "accelerator.num_machines"}},  // torchrun's
    {{"gradient_accumulation_steps", Effect::kSets, "train.gradient_accumulation_steps", "auto"}},
    {{"gradient_clipping", Effect::kSets, "train.max_grad_norm", "auto none"}},
    {{"debug", Effect::kTurnsOn, "accelerator.debug=collectives"}, kSwitch},
    // The only behavior.
    {{"quiet", Effect::kPlain}, kSwitch},
    {{"q", Effect::kPlain}, kSwitch},
    {{"no_python", Effect::kPlain}, kSwitch},
    {{"same_network", Effect::kPlain}, kSwitch},
    {{"no_tpu_cluster", Effect::kPlain}, kSwitch},

    {{"module", Effect::kRefused, kNoModule}, kSwitch},
    {{"m", Effect::kRefused, kNoModule}, kSwitch},
    {{"multi_gpu", Effect::kTurnsOn, "accelerator.distributed_type=multi_gpu"}, kSwitch},
    {{"gpu_ids", Effect::kSets, "accelerator.gpu_ids", "all"}},
    {{"enable_cpu_affinity", Effect::kRefused, reasons::kAffinity}, kSwitch},
    {{"tee", Effect::kRefused, kRankLogs, "0", kLogHint}},
    {{"t", Effect::kRefused, kRankLogs, "0", kLogHint}},
    {{"log_dir", Effect::kRefused, kRankLogs, "", kLogHint}},
    {{"role", Effect::kRefused, kNoRoles, "default"}},
    {{"rdzv_backend", Effect::kRefused, reasons::kRendezvous, "static"}},
    {{"rdzv_conf", Effect::kRefused, kNoRendezvousConf, "", kJoin}},
    {{"main_training_function", Effect::kRefused, reasons::kNoScript, "main"}},
    {{"mpirun_hostfile", Effect::kRefused, reasons::kMpi, "", reasons::kMpiHint}},
    {{"dynamo_backend", Effect::kRefused, reasons::kCompile, kOff}},
    {{"dynamo_mode", Effect::kRefused, reasons::kCompile, "default"}},
    {{"dynamo_use_fullgraph", Effect::kRefused, reasons::kCompile}, kSwitch},
    {{"dynamo_use_dynamic", Effect::kRefused, reasons::kCompile}, kSwitch},
    {{"dynamo_use_regional_compilation", Effect::kRefused, reasons::kCompile}, kSwitch},
    {{"tpu", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"tpu_cluster", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"tpu_use_sudo", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"downcast_bf16", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"vm", Effect::kRefused, reasons::kTpu}},
    {{"env", Effect::kRefused, reasons::kTpu}},
    {{"aws_access_key_id", Effect::kRefused, reasons::kSageMaker}},
    {{"aws_secret_access_key", Effect::kRefused, reasons::kSageMaker}},
};

const LaunchFlag* find_in(std::span<const LaunchFlag> flags, std::string_view name) {
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [&](const LaunchFlag& flag) { return flag.word.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

/// `names` owns the names of the flags.
struct FlagTable {
  std::deque<std::string> names;  // stay in place
  std::vector<LaunchFlag> flags;
};

constexpr std::string_view kFp8Flags = "fp8_";

/// Flags of fp8; those without a target are only in the environment, or refused by their values.
void add_fp8_flags(FlagTable& table) {
  for (const Fp8Option& option : fp8_options()) {
    const std::string_view name = option.name;
    const bool is_of_environment =
        name.starts_with("use_mxfp8") || (name.starts_with("override_") && option.target.empty());
    if (is_of_environment) continue;
    const std::string& flag = table.names.emplace_back(std::string(kFp8Flags).append(name));
    const Effect effect = option.target.empty() ? Effect::kPlain : Effect::kSets;
    table.flags.push_back({{flag, effect, option.target}, !option.is_switch});
  }
}

void add_family_flags(FlagTable& table, const ShardingFamily& family) {
  const auto add = [&](std::string name) {
    const bool takes_value = !name.starts_with("use_");
    const std::string& flag = table.names.emplace_back(std::move(name));
    table.flags.push_back({{flag, Effect::kPlain}, takes_value, &family});
  };
  add(ascii_lower(family.switch_name));
  for (const std::string& name : option_names(family)) {
    // Other options are in files only, or flags of their own.
    std::string flag = std::string(family.flag_prefix).append(name);
    if (name.find('.') != name.npos || find_in(kFlags, flag)) continue;
    add(std::move(flag));
  }
}

FlagTable make_table() {
  FlagTable table;
  table.flags.assign(std::begin(kFlags), std::end(kFlags));
  add_fp8_flags(table);
  for (const ShardingFamily* family : sharding_families()) add_family_flags(table, *family);
  return table;
}

/// A parsed flag.
struct FlagWord {
  std::string name;                  ///< with underscores, without dashes
  std::optional<std::string> value;  ///< after '='
};

FlagWord parse_flag(const std::string& word) {
  const size_t equals = word.find('=');
  FlagWord out;
  out.name = word.substr(0, equals);
  out.name.erase(0, out.name.starts_with("--") ? 2 : 1);
  std::replace(out.name.begin(), out.name.end(), '-', '_');
  if (equals != word.npos) out.value = word.substr(equals + 1);
  return out;
}

/// The option of the recipe that the flag sets; "" for flags without one.
std::string help_target(const LaunchFlag& flag) {
  const Effect effect = flag.word.effect;
  if (effect == Effect::kSets || effect == Effect::kTurnsOn || effect == Effect::kPrecision) {
    return std::string(flag.word.target);
  }
  if (!flag.family) return {};
  if (!flag.takes_value) {
    const bool shards = flag.family == &kFsdpFamily || flag.family == &kDeepSpeedFamily;
    return shards ? "accelerator.fsdp.stage" : "";
  }
  for (const ShardingKey& key : flag.family->keys) {
    const bool sets =
        key.effect >= ShardingKey::Effect::kSets && key.effect <= ShardingKey::Effect::kPatterns;
    if (sets && std::string(flag.family->flag_prefix).append(key.name) == flag.word.name) {
      return std::string(key.says.substr(0, key.says.find_first_of("= ")));
    }
  }
  return {};
}

class LaunchReader {
 public:
  LaunchReader(const std::vector<std::string>& words, int first, Diagnostics& problems)
      : words_(words),
        first_(first),
        layer_(problems),
        sharding_(layer_, ShardingLayer::Place::kFlags),
        fp8_(layer_) {}

  LaunchLine read() {
    while (at_ < words_.size() && words_[at_].starts_with('-')) read_flag();
    if (at_ < words_.size()) {
      line_.recipe = words_[at_++];
      line_.first_override = first_ + static_cast<int>(at_);
      line_.overrides.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
      check_overrides();
    } else if (!line_.help) {
      layer_.problems().error({}, "'launch' wants a recipe",
                              "write: accel-run launch [flags] RECIPE [key=value ...]");
    }
    finish_sharding();
    fp8_.finish();
    layer_.drop_lone_address();
    line_.flags = layer_.take();
    line_.warnings = layer_.take_warnings();
    return std::move(line_);
  }

 private:
  /// The location of a flag or its value.
  Span location(size_t index, const std::string& text, size_t column) const {
    const int number = first_ + static_cast<int>(index);
    const auto source =
        std::make_shared<const Source>(Source{text, text, Source::Kind::kArgument, number});
    return {source, 1, static_cast<int>(column)};
  }

  void read_flag() {
    const size_t index = at_++;
    const std::string& written = words_[index];
    FlagWord word = parse_flag(written);
    const LaunchFlag* flag = find_launch_flag(word.name);
    if (!flag || written.starts_with("--") != (word.name.size() > 1)) {
      const std::string near = closest(word.name, launch_flag_names());
      layer_.problems().error(location(index, written, 1),
                              accel::text("'launch' has no flag '{}'", written),
                              near.empty() ? "" : accel::text("did you mean '--{}'?", near));
      return;
    }
    std::string text = written;
    if (flag->takes_value && !word.value) {
      if (at_ == words_.size() || words_[at_].starts_with("--")) {
        layer_.problems().error(location(index, written, 1),
                                accel::text("'{}' wants a value", written));
        return;
      }
      word.value = words_[at_++];
      text += " " + *word.value;
    } else if (!flag->takes_value && word.value) {
      layer_.problems().error(
          location(index, written, 1),
          accel::text("'{}' takes no value", written.substr(0, written.find('='))));
      return;
    }
    if (word.name.starts_with("aws_")) text = written.substr(0, written.find('='));  // a secret
    const size_t column = flag->takes_value && text != written.substr(0, written.find('='))
                              ? text.size() - word.value->size() + 1
                              : 1;
    take(*flag, scalar_node(word.value.value_or("true"), false, location(index, text, column)),
         text);
  }

  void take(const LaunchFlag& flag, const Node& value, const std::string& text) {
    const std::string_view name = flag.word.name;
    if (name == "config_file" || name == "config") {
      line_.config_file = value.scalar()->text;
    } else if (name == "help" || name == "h") {
      line_.help = true;
    } else if (flag.family) {
      take_sharding(flag, value, text);
    } else if (name.starts_with(kFp8Flags)) {
      fp8_.add(*find_fp8_option(name), value, text);
    } else if (name == "monitor_interval") {
      Node seconds = value;
      seconds.scalar()->text += " s";
      layer_.apply(flag.word, seconds, text);
    } else if (name == "nnodes") {
      take_machines(flag, value, text);
    } else {
      if (name == "cpu") line_.on_cpu = true;
      layer_.apply(flag.word, value, text);
    }
  }

  /// "4", or "2:4" of an elastic run.
  void take_machines(const LaunchFlag& flag, const Node& value, const std::string& text) {
    Node most = value;
    const size_t colon = value.scalar()->text.find(':');
    if (colon != std::string::npos) {
      Node least = value;
      least.scalar()->text.resize(colon);
      most.scalar()->text.erase(0, colon + 1);
      layer_.set("accelerator.min_machines", least);
    }
    layer_.apply(flag.word, most, text);
  }

  void take_sharding(const LaunchFlag& flag, const Node& value, const std::string& text) {
    const std::string name(flag.word.name);
    ShardingOption option{name, value, value.where, text};
    if (!flag.takes_value) return sharding_.enable(*flag.family, std::move(option));
    // Messages have the name without dashes, as for options of the recipe.
    sharding_.add(*flag.family, std::move(option));
  }

  void finish_sharding() {
    for (const char* name : {"num_machines", "mixed_precision"}) {
      const Node* found = layer_.find(std::string("accelerator.") + name);
      if (found && found->scalar()) sharding_.set_fact(name, found->scalar()->text);
    }
    sharding_.finish();
  }

  void check_overrides() {
    for (size_t i = at_; i < words_.size(); ++i) {
      if (!words_[i].starts_with('-')) continue;
      layer_.problems().error(location(i, words_[i], 1),
                              text("'{}' is after the recipe", words_[i]),
                              "write flags of 'launch' before the recipe, 'key=value' after it");
    }
  }

  const std::vector<std::string>& words_;
  int first_;
  size_t at_ = 0;
  CompatLayer layer_;
  ShardingLayer sharding_;
  CompatFp8 fp8_;
  LaunchLine line_;
};

}  // namespace

std::span<const LaunchFlag> launch_flags() {
  static const FlagTable table = make_table();
  return table.flags;
}

const LaunchFlag* find_launch_flag(std::string_view name) {
  return find_in(launch_flags(), name);
}

std::vector<std::string> launch_flag_names() {
  std::vector<std::string> names;
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.word.name.size() > 1) names.emplace_back(flag.word.name);
  }
  return names;
}

LaunchLine read_launch_line(const std::vector<std::string>& words, int first,
                            Diagnostics& problems) {
  return LaunchReader(words, first, problems).read();
}

std::string launch_help() {
  std::string out =
      "accel-run launch [flags] RECIPE [key=value ...]\n\n"
      "Trains as 'accel-run RECIPE', with the flags of 'accelerate launch' in hyphens or\n"
      "underscores. Flags override the recipe, which overrides the config file; default: the\n"
      "file of 'accelerate config'.\n\n"
      "  --config_file FILE                     a config of Accelerate or accel-run\n";
  for (const LaunchFlag& flag : launch_flags()) {
    const std::string target = help_target(flag);
    if (target.empty()) continue;
    std::string line = "  --" + std::string(flag.word.name) + (flag.takes_value ? " VALUE" : "");
    line.append(line.size() < 41 ? 41 - line.size() : 1, ' ');
    out.append(line).append(target).append("\n");
  }
  return out + "\nOther flags of Accelerate are refused with the reason.\n";
}

}  // namespace accel
