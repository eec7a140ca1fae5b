#include "compat/trainers/lightning_strategy.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "compat/trainers/sharding_readings.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// A class as the name of its strategy: "FSDPStrategy" is fsdp, with an option that is the stage.
struct StrategyClass {
  std::string_view ending;
  const char* name;
  const char* stage;
};

constexpr StrategyClass kStrategyClasses[] = {{"FSDPStrategy", "fsdp", "sharding_strategy"},
                                              {"DeepSpeedStrategy", "deepspeed", "stage"},
                                              {"DDPStrategy", "ddp", ""}};

/// The name and the stage of a class; other options are reported.
std::pair<std::string, std::string> strategy_of_class(TrainerConfig& trainer, const Node& given) {
  const Node::Entry* path = given.find("class_path");
  const std::string name = path && path->node.scalar() ? path->node.scalar()->text : "";
  const auto known =
      std::find_if(std::begin(kStrategyClasses), std::end(kStrategyClasses),
                   [&](const StrategyClass& each) { return name.ends_with(each.ending); });
  if (known == std::end(kStrategyClasses)) return {name, ""};
  std::string stage;
  const Node::Entry* options = given.find("init_args");
  for (const Node::Entry& option :
       options && options->node.map() ? *options->node.map() : Node::Map{}) {
    if (option.key == known->stage && option.node.scalar()) {
      stage = option.node.scalar()->text;
    } else {
      trainer.skip_nested("strategy.init_args", option, "write it in 'accelerator'");
    }
  }
  return {known->name, stage};
}

}  // namespace

void read_lightning_strategy(TrainerConfig& trainer, std::string name) {
  const Node::Entry* entry = trainer.find("strategy");
  std::string stage;
  if (entry->node.map()) std::tie(name, stage) = strategy_of_class(trainer, entry->node);
  if (name == "ddp") return trainer.ignore("strategy");
  if (name == "fsdp" || name == "fsdp_native") {
    return read_sharding_option(trainer, kFsdpFamily, "strategy",
                                {{"sharding_strategy", stage.empty() ? "FULL_SHARD" : stage}});
  }
  if (!name.starts_with("deepspeed")) {
    return trainer.skip("strategy", text("the strategy '{}' is not available", name));
  }
  constexpr std::string_view kStage = "stage_";
  const size_t at = name.find(kStage);
  if (at != name.npos) stage = name.substr(at + kStage.size(), 1);
  ShardingWords words = {{"zero_stage", stage.empty() ? "2" : stage}};
  if (name.find("offload") != name.npos) words.emplace_back("offload_optimizer_device", "cpu");
  read_sharding_option(trainer, kDeepSpeedFamily, "strategy", words);
}

}  // namespace accel
