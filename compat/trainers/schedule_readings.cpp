#include "compat/trainers/schedule_readings.h"

#include "compat/trainers/duration_texts.h"
#include "compat/trainers/translation.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

constexpr Translation kSchedules[] = {
    {"linear", "linear"},
    {"cosine", "cosine"},
    {"cosine_with_min_lr", "cosine"},
    {"cosine_with_restarts", "cosine"},
    {"constant", "constant"},
    {"constant_with_warmup", "constant"},
    {"polynomial", "polynomial"},
    {"inverse_sqrt", "inverse_sqrt"},
    {"reduce_lr_on_plateau", "plateau"},
    {"warmup_stable_decay", "wsd"},
};

/// lr_scheduler_kwargs by the recipe's type; `ours` begins with the type.
constexpr Translation kScheduleOptions[] = {
    {"cosine.min_lr_rate", "to"},     {"cosine.min_lr", "min_lr"},
    {"cosine.num_cycles", "cycles"},  {"polynomial.power", "power"},
    {"polynomial.lr_end", "min_lr"},  {"plateau.factor", "factor"},
    {"plateau.patience", "patience"}, {"plateau.threshold", "threshold"},
    {"plateau.cooldown", "cooldown"}, {"plateau.min_lr", "min_lr"},
    {"wsd.min_lr_ratio", "to"},       {"wsd.decay_type", "decay_type"},
    {"plateau.mode", "mode"},         {"plateau.threshold_mode", "threshold_mode"},
    {"plateau.eps", "eps"},
};

/// Of these, numbers of steps.
constexpr Translation kScheduleLengths[] = {
    {"wsd.num_decay_steps", "decay"},
    {"inverse_sqrt.timescale", "timescale"},
};

/// The section, or that of its JSON text, whose entries have the text's position.
Node section_of(const Node::Entry& given) {
  const Scalar* json = given.node.scalar();
  if (!json || !json->text.starts_with('{')) return given.node;
  try {
    Node section = parse_recipe("kwargs.json", json->text);
    for (Node::Entry& entry : *section.map()) entry.where = entry.node.where = given.where;
    return section;
  } catch (const RecipeError&) {
    return given.node;  // reported as no section
  }
}

/// lr_scheduler_kwargs, a section or JSON text of one.
void read_schedule_options(TrainerConfig& config, const std::string& type, bool restarts) {
  constexpr auto kKey = "lr_scheduler_kwargs";
  const Node::Entry* given = config.find(kKey);
  if (!given) return;
  const Node options = section_of(*given);
  if (!options.map()) return config.skip(kKey, "it is no section of options");
  config.close(kKey);
  TrainerConfig inner(options, config.out(), config.program(), std::string(kKey) + '.');
  for (const Node::Entry& entry : *options.map()) {
    const char* ours = translation(kScheduleOptions, type + '.' + entry.key);
    if (restarts && entry.key == "num_cycles") ours = "restarts";
    const char* length = translation(kScheduleLengths, type + '.' + entry.key);
    const Scalar* value = entry.node.scalar();
    if (ours && value) {
      inner.set_text(std::string("scheduler.") + ours, value->text, entry.key);
    } else if (length && value) {
      inner.set_text(std::string("scheduler.") + length, value->text + " steps", entry.key);
    } else {
      inner.skip(entry.key, text("'scheduler' of type {} has no such option", type));
    }
  }
}

/// Trainer hands the metric of the best model to the schedule.
void read_plateau_metric(TrainerConfig& config) {
  constexpr auto kKey = "metric_for_best_model";
  std::string metric = config.text(kKey).value_or("loss");
  if (metric.starts_with("eval_")) metric.erase(0, 5);
  if (config.find(kKey)) config.set_text("scheduler.metric", "eval/" + metric, kKey);
}

}  // namespace

void read_schedule(TrainerConfig& config, const char* key, const char* fallback,
                   const char* fallback_warmup) {
  const std::string name = config.text(key).value_or(fallback);
  const char* ours = translation(kSchedules, name);
  if (!ours) {
    return config.refuse(key, text("the schedule '{}' is not available", name),
                         "'accel-run list' shows the schedulers");
  }
  config.set_text("scheduler.type", ours, key);
  // transformers' get_scheduler() has no warm-up for these.
  const bool never_warms = name == "constant" || name == "reduce_lr_on_plateau";
  bool warms = never_warms;
  for (const char* warmup : {"warmup_ratio", "warmup_steps"}) {  // the second wins
    if (never_warms) config.ignore(warmup);
    const auto value = config.number(warmup);
    if (!value || never_warms) continue;
    warms = true;
    if (*value <= 0) continue;
    const std::string length =
        warmup == std::string("warmup_ratio") && *value >= 1 ? "100%" : interval_text(*value);
    config.set_text("scheduler.warmup", length, warmup);
  }
  if (!warms && *fallback_warmup) config.set_text("scheduler.warmup", fallback_warmup, "warmup");
  const bool restarts = name == "cosine_with_restarts";
  read_schedule_options(config, ours, restarts);
  if (const Node* least = config.value_of("scheduler.to"); least && name == "warmup_stable_decay") {
    config.place("scheduler.warmup_from", *least);  // its warm-up starts there too
  }
  if (name == "reduce_lr_on_plateau") read_plateau_metric(config);
  if (restarts && !config.has("scheduler.restarts")) config.put("scheduler.restarts", "1");
  if (ours == std::string("polynomial") && !config.has("scheduler.min_lr")) {
    config.set_text("scheduler.min_lr", "1e-07", "lr_scheduler_kwargs.lr_end");
  }
}

}  // namespace accel
