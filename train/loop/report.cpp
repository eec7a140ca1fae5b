#include "train/loop/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/base/build_info.h"
#include "core/base/progress_text.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "data/datasets/skipped_samples.h"
#include "kernels/choice.h"
#include "train/callbacks/continuation.h"
#include "train/job/build_expert_parallel.h"
#include "train/job/build_fsdp.h"
#include "train/job/build_pipeline.h"
#include "train/job/build_strategy.h"
#include "train/job/build_streaming.h"
#include "train/job/device.h"
#include "train/job/mixture_points.h"
#include "train/job/torch_setup.h"

namespace accel {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

std::string row(const char* name, const std::string& text) {
  return format("  %-10s ", name) + text;
}

std::string plural(int64_t count, const char* word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string model_text(const Job& job) {
  int64_t all = 0, trainable = 0;
  for (const Parameter& item : job.parameters) {
    all += item.numel();
    if (item.local.requires_grad()) trainable += item.numel();
  }
  all += frozen_memory(job).elements;
  return job.recipe.model.type + ", " + grouped_digits(all) + " parameters" +
         (trainable == all ? "" : ", " + grouped_digits(trainable) + " trainable");
}

std::string steps_text(const Job& job) {
  const int64_t total = job.length.total_steps, epoch = job.length.steps_per_epoch;
  std::string text = total > 0 ? grouped_digits(total) : "until the time limit";
  return text + " (" + grouped_digits(epoch) + " per epoch)";
}

std::string data_text(const Job& job) {
  std::string text = grouped_digits(job.train_samples) + " samples " + to_string(job.data.input);
  if (job.eval_loader) text += ", eval " + grouped_digits(job.eval_samples);
  if (!job.held_out.empty()) text += ", held out " + job.held_out;
  const int64_t skipped = left_out(job.train_loader->dataset());
  if (skipped > 0) text += ", " + grouped_digits(skipped) + " skipped";
  return text;
}

std::string batch_text(const Job& job) {
  const BatchPlan& plan = job.batches;
  return std::to_string(plan.batch) + " = " + std::to_string(plan.micro_batch) + " micro x " +
         std::to_string(plan.accumulation) + " accumulated x " + plural(plan.world, "rank");
}

std::string saves_text(const Job& job) {
  const CheckpointSection& checkpoint = job.recipe.checkpoint;
  const KeepSection& keep = checkpoint.keep;
  std::string text = detail::inline_text(Codec<Durations>::write(checkpoint.every));
  if (text != "never") text = "every " + text;
  if (checkpoint.at_end) text += ", at the end";
  text += "; keep the last " + std::to_string(keep.last);
  if (keep.best > 0) text += " and the best " + std::to_string(keep.best) + " by " + keep.metric;
  return text;
}

const char* precision_text(MixedPrecision precision) {
  switch (precision) {
    case MixedPrecision::kNo:
      return "fp32";
    case MixedPrecision::kBf16:
      return "bf16 autocast";
    case MixedPrecision::kFp8:
      return "bf16 autocast with fp8";
    case MixedPrecision::kFp16:
      break;
  }
  return "fp16 autocast with loss scaling";
}

std::string schedule_text(const Job& job) {
  std::string text;
  for (const SchedulePhase& phase : job.recipe.scheduler.phases) {
    text += (text.empty() ? "" : " > ") + phase.component.type;
  }
  return text;
}

bool has_reached(const Job& job, const RunState& state, const Duration& until) {
  if (until.unit == Duration::Unit::kSeconds) return state.seconds >= until.value;
  return job.length.total_steps > 0 && state.progress.step >= job.length.total_steps;
}

/// " train.until='6 epochs' callbacks.0.patience=6": overrides that let the finished run continue,
/// with twice the length where it is reached. None where a callback would stop the run again.
std::optional<std::string> continued(const Job& job, const RunState& state) {
  std::string changes;
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    if (!job.callbacks[i]->stop()) continue;
    const auto* stopped = dynamic_cast<const Continuation*>(job.callbacks[i].get());
    if (!stopped) return std::nullopt;
    changes += text(" callbacks.{}.{}", i, stopped->change_to_continue());
  }
  Duration until = job.recipe.train.until.front();
  if (!changes.empty() && !has_reached(job, state, until)) return changes;
  until.value *= 2;
  return std::string(" train.until='") + to_string(until) + "'" + changes;
}

}  // namespace

double epochs_done(const Job& job, const Progress& progress) {
  return static_cast<double>(progress.epoch) +
         static_cast<double>(progress.step_in_epoch) /
             static_cast<double>(job.train_loader->steps_per_epoch());
}

ConfigValues job_summary(const Job& job) {
  const bool environment = takes_environment_threads(job.recipe.accelerator);
  const std::string origin = environment ? " (OMP_NUM_THREADS)" : "";
  const std::string device = device_text(job.device) + ", " + plural(threads(), "thread") + origin +
                             ", " + precision_text(job.recipe.accelerator.mixed_precision) +
                             (enables_intel_kernels_of_mkl() ? ", MKL as on Intel" : "");
  const std::string lr = show_number(job.optimizer->base_lrs().front());
  ConfigValues rows = {
      {"device", device},
      {"model", model_text(job)},
      {"task", job.recipe.task.type},
      {"data", data_text(job)},
      {"batch", batch_text(job)},
      {"steps", steps_text(job)},
      {"optimizer", job.recipe.optimizer.type + ", lr " + lr + ", scheduler " + schedule_text(job)},
      {"saves", saves_text(job)}};
  if (std::string mixture = mixture_summary(job); !mixture.empty()) {
    rows.emplace_back("mixture", std::move(mixture));
  }
  const std::string mesh = mesh_summary(sizes_of_mesh(job.recipe.accelerator, job.num_ranks));
  if (!mesh.empty()) rows.emplace_back("mesh", mesh);
  if (job.recipe.accelerator.parallelism.pp > 1)
    rows.emplace_back("pipeline", pipeline_summary(job));
  if (!job.fp8_layers.empty()) {
    const Node recipe = Codec<Fp8Recipe>::write(job.recipe.accelerator.fp8.recipe);
    rows.emplace_back("fp8", recipe.scalar()->text + ", " + job.fp8_layers);
  }
  if (job.expert_ranks) rows.emplace_back("experts", expert_summary(job));
  if (job.recipe.accelerator.fsdp.stage > 0) rows.emplace_back("sharding", sharding_summary(job));
  const std::string streaming = streaming_summary(job);
  if (!streaming.empty()) rows.emplace_back("streams", streaming);
  std::string offload = offload_summary(job);
  if (job.recipe.train.activation_cpu_offload) {
    if (!offload.empty()) offload += "; ";
    offload += job.device.is_cpu() ? "activations: no effect, training is on the CPU"
                                   : "activations: inputs of blocks in memory of the host";
  }
  if (!offload.empty()) rows.emplace_back("offload", std::move(offload));
  return rows;
}

std::string rounded(double value) {
  return format("%.4g", value);
}

std::vector<std::string> first_screen(const Job& job, const std::string& run_dir,
                                      const std::string& start, const ConfigValues& notes) {
  std::vector<std::string> lines;
  lines.push_back("accel-run " + std::string(build_info().version) + ": " + job.recipe.name);
  lines.push_back(row("run", run_dir));
  for (const auto& [name, text] : job_summary(job)) lines.push_back(row(name.c_str(), text));
  for (const std::string& note : job.fill_notes) lines.push_back(row("missing", note));
  lines.push_back(row("start", start));
  for (const auto& [name, text] : notes) lines.push_back(row(name.c_str(), text));
  return lines;
}

std::string few_samples_warning(const Job& job) {
  if (job.train_samples >= job.batches.batch) return {};
  return text(
      "the batch of {} samples is larger than the training set of {}: each optimizer step takes "
      "the whole set, one epoch",
      grouped_digits(job.batches.batch), grouped_digits(job.train_samples));
}

std::string log_line(const Job& job, const Progress& progress,
                     std::span<const Measurement> values) {
  const auto value = [&](const std::string& name) {
    for (const auto& [key, number] : values) {
      if (key == name) return number;
    }
    return 0.0;
  };
  std::string text = "step " + std::to_string(progress.step);
  if (job.length.total_steps > 0) text += "/" + std::to_string(job.length.total_steps);
  text += format("  epoch %.2f  loss %.4f  lr %.3g  grad %.3g", value("train/epoch"),
                 value("train/loss"), value("train/lr"), value("train/grad_norm"));
  text += "  " + grouped_digits(std::llround(value("train/samples_per_second"))) + " samples/s";
  if (const double tokens = value("train/tokens_per_second"); tokens > 0) {
    text += "  " + grouped_digits(std::llround(tokens)) + " tokens/s";
  }
  if (const double scale = value("train/loss_scale"); scale > 0) {
    text += format("  scale %.0f", scale);
  }
  return text;
}

std::string eval_line(const Progress& progress, std::span<const Measurement> values) {
  std::string text = "eval at step " + std::to_string(progress.step);
  for (const auto& [name, value] : values) {
    text += "  " + name.substr(name.find('/') + 1) + format(" %.4f", value);
  }
  return text;
}

std::vector<std::string> last_screen(const Job& job, const RunState& state, const Stopwatch& watch,
                                     const RunEnd& end) {
  std::vector<std::string> lines;
  lines.push_back(end.headline +
                  format(" at step %ld, epoch %.2f, in ", static_cast<long>(state.progress.step),
                         epochs_done(job, state.progress)) +
                  clock_text(watch.total()));
  lines.push_back(row("time", watch.summary()));
  if (state.best && job.eval_loader) {
    lines.push_back(row("best", job.recipe.checkpoint.keep.metric + format(" %.4f", *state.best) +
                                    " at step " + std::to_string(state.best_step)));
  }
  if (!end.checkpoint.empty()) lines.push_back(row("checkpoint", end.checkpoint));
  if (!end.report.empty()) lines.push_back(row("report", end.report));
  const auto more = end.finished ? continued(job, state) : "";
  if (!end.checkpoint.empty() && more) {
    lines.push_back("  resume with: accel-run resume " + end.run_dir + *more);
  }
  return lines;
}

ExpectReport check_expectations(const Job& job, const RunState& state) {
  ExpectReport report;
  for (const auto& [name, bound] : job.recipe.expect) {
    const auto found = state.evaluation.find(name);
    const bool known = name == "train/loss" || found != state.evaluation.end();
    const double value = found != state.evaluation.end() ? found->second : state.last_loss;
    const bool met = known && bound.met(value);
    report.met = report.met && met;
    report.lines.push_back("expect " + name + " " + to_string(bound) + ": " +
                           (met ? "met" : "NOT met") +
                           (known ? ", it is " + format("%.4f", value) : ", not measured"));
  }
  return report;
}

}  // namespace accel
