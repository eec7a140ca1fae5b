#include "compat/trainers/lightning_length.h"

#include <algorithm>
#include <cmath>

#include "compat/trainers/duration_texts.h"
#include "compat/trainers/shared_readings.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

using import_reasons::kPartOfData;

/// A value that is a share of the batches or, without a decimal point, their number: 1.0 is all of
/// them, and 1 is one.
struct Batches {
  double value = 1;
  bool is_share = true;

  bool is_all() const { return is_share && value == 1; }
};

Batches batches_of(const TrainerConfig& trainer, const char* key) {
  const auto value = trainer.number(key);
  if (!value) return {};
  return {*value, trainer.text(key)->find_first_of(".eE") != std::string::npos};
}

/// How often evaluations happen. Their interval counts micro-batches, `accumulate` of which are a
/// step.
void read_lightning_evaluations(TrainerConfig& trainer) {
  const double accumulate = std::max(1.0, trainer.number("accumulate_grad_batches").value_or(1));
  const Batches part = batches_of(trainer, "limit_val_batches");
  const Batches interval = batches_of(trainer, "val_check_interval");
  if (part.value == 0) {
    trainer.set_text("eval.every", "never", "limit_val_batches");
    trainer.ignore("check_val_every_n_epoch");
    return trainer.ignore("val_check_interval");
  }
  if (!part.is_all()) trainer.skip("limit_val_batches", kPartOfData);
  trainer.ignore("limit_val_batches");
  if (interval.is_all()) {
    trainer.set_text("eval.every",
                     epochs_text(trainer.number("check_val_every_n_epoch").value_or(1)),
                     "check_val_every_n_epoch");
    return trainer.ignore("val_check_interval");
  }
  const double steps = std::max(1.0, std::round(interval.value / accumulate));
  if (!interval.is_share && steps * accumulate != interval.value) {
    trainer.remark(text("trainer.val_check_interval: {} batches are rounded to {} steps of {}",
                        show_number(interval.value), show_number(steps), show_number(accumulate)));
  }
  trainer.set_text("eval.every",
                   interval.is_share ? epochs_text(interval.value) : interval_text(steps),
                   "val_check_interval");
  if (trainer.number("check_val_every_n_epoch").value_or(1) != 1) {
    trainer.skip("check_val_every_n_epoch", "'eval.every' is that of 'val_check_interval'");
  }
  trainer.ignore("check_val_every_n_epoch");
}

}  // namespace

void read_lightning_length(TrainerConfig& trainer) {
  const double steps = trainer.number("max_steps").value_or(-1);
  const auto epochs = trainer.number("max_epochs");
  if (steps > 0) {
    trainer.set_text("train.until", interval_text(steps), "max_steps");
    if (epochs && *epochs >= 0) {  // the first of the two ends the training
      const Node::List both = {scalar_node(interval_text(steps)),
                               scalar_node(epochs_text(*epochs))};
      trainer.set("train.until", {both, {}}, "max_epochs");
    }
    trainer.ignore("max_epochs");
  } else if (epochs && *epochs < 0) {
    trainer.set_text("train.until", "never", "max_epochs");
  } else {
    trainer.set_text("train.until", epochs_text(epochs.value_or(1000)), "max_epochs");
  }
  read_lightning_evaluations(trainer);
  if (!trainer.find("log_every_n_steps")) {
    trainer.set_text("log.every", "50 steps", "log_every_n_steps");
  }
  constexpr auto kTrained = "limit_train_batches";
  if (!batches_of(trainer, kTrained).is_all()) trainer.skip(kTrained, kPartOfData);
  trainer.ignore(kTrained);
}

}  // namespace accel
