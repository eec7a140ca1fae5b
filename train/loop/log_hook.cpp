#include "train/loop/log_hook.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "track/values.h"
#include "train/loop/report.h"

namespace accel {
namespace {

/// Writes a sample for the report.
void write_sample(const LoopContext& context, const std::string& name, const Picture& picture) try {
  if (context.saves) write_picture(context.run_dir, context.run_dir + "/" + name + ".png", picture);
} catch (const IoError& error) {
  warn(text("{}; the report lacks this image", error.what()));
}

}  // namespace

int64_t tokens_of(const Job& job, int64_t samples) {
  return job.length.tokens_per_step > 0 ? samples * job.data.input.back() : 0;
}

LogHook::LogHook(LoopProgress progress)
    : context_(progress.context),
      state_(progress.state),
      watch_(progress.watch),
      settle_(progress.settle),
      due_(context_.job.recipe.log.every, context_.job.length),
      histograms_due_(context_.job.recipe.log.histograms, context_.job.length) {
  if (context_.job.recipe.log.system) system_.emplace(context_.run_dir);
}

void LogHook::log_images(const GlobalBatch& global_batch) {
  const int64_t wanted = global_batch.micro_batches.empty() ? 0 : context_.job.recipe.log.images;
  if (wanted == 0) return;
  const Array& inputs = global_batch.micro_batches.front().inputs;
  for (int64_t i = 0; i < wanted; ++i) {
    std::optional<Picture> picture = picture_of(inputs, i);
    if (!picture && i == 0) warn("'log.images': the data has no images");
    if (!picture) return;
    const std::string name = "samples/" + std::to_string(i);
    write_sample(context_, name, *picture);
    context_.trackers.image(1, name, std::move(*picture));
  }
}

void LogHook::add_step(const GlobalBatch& global_batch, const StepResult& result, double lr) {
  const int64_t step = state_.progress.step;
  if (const auto line = stragglers_.add(result.computed)) {
    say(*line);
    if (stragglers_.is_news()) context_.record.event(step, "slow", *line);
  }
  throughput_.steps += 1;
  throughput_.samples += global_batch.samples;
  LogInterval& interval = state_.interval;
  interval.loss += result.loss;
  interval.grad_norm += result.grad_norm;
  interval.steps += 1;
  for (const auto& [name, value] : result.logged) {
    auto& [sum, steps] = interval.logged[name];
    sum += value;
    ++steps;
  }
  StepRecord record;
  record.step = step;
  record.epoch = global_batch.epoch;
  record.samples = state_.progress.samples;
  record.loss = result.loss;
  record.lr = lr;
  record.ids_digest = global_batch.digest;
  record.skipped = !result.updated;
  if (result.updated) record.grad_norm = result.grad_norm;
  context_.record.step(record);
}

void LogHook::log_texts() {
  const int64_t step = state_.progress.step;
  for (const auto& callback : context_.job.callbacks) {
    for (const CallbackText& item : callback->take_texts()) {
      settle_();
      context_.check_folder();
      context_.trackers.text(step, item.tag, item.text);
      context_.record.event(step, "text", item.tag + ": " + item.text);
      say(text("{} at step {}", item.tag, step));
      std::istringstream lines(item.text);
      for (std::string line; std::getline(lines, line);) say("  | " + printable(line));
    }
  }
}

void LogHook::after_step(double seconds, bool last) {
  const int64_t step = state_.progress.step;
  const bool due = due_.due(step, seconds) || last;
  if (due || !has_printed_) settle_();
  if (due) log_interval();
  // Where output is a pipe, minutes may pass before the interval ends.
  if (!due && !has_printed_) say(log_line(context_.job, state_.progress, means()));
  has_printed_ = true;
  if (!histograms_due_.due(step, seconds)) return;
  settle_();
  log_histograms();
}

void LogHook::log_rest() {
  if (state_.interval.steps > 0) log_interval();
}

void LogHook::set_period(double seconds) {
  due_.change(context_.job.recipe.log.every, context_.job.length, state_.progress.step, seconds);
}

double LogHook::training_seconds() const {
  return watch_.total() - watch_.seconds(Phase::kEval) - watch_.seconds(Phase::kSave);
}

std::vector<Measurement> LogHook::means() const {
  const Job& job = context_.job;
  const LogInterval& interval = state_.interval;
  const auto steps = static_cast<double>(interval.steps);
  const double seconds = std::max(1e-9, training_seconds() - throughput_.started);
  const int64_t tokens = tokens_of(job, throughput_.samples);
  std::vector<Measurement> values = {
      {"train/loss", interval.loss / steps},
      {"train/grad_norm", interval.grad_norm / steps},
      {"train/lr", job.schedule->lr(job.optimizer->base_lrs().front(), state_.updates)},
      {"train/epoch", epochs_done(job, state_.progress)},
      {"train/samples_per_second", static_cast<double>(throughput_.samples) / seconds}};
  if (tokens > 0) {
    values.emplace_back("train/tokens_per_second", static_cast<double>(tokens) / seconds);
  }
  for (const auto& [name, value] : interval.logged) {
    values.emplace_back("train/" + name, value.first / static_cast<double>(value.second));
  }
  if (job.precision->loss_scale() != 1) {
    values.emplace_back("train/loss_scale", job.precision->loss_scale());
  }
  return values;
}

void LogHook::log_interval() {
  context_.check_folder();
  std::vector<Measurement> values = means();
  say(log_line(context_.job, state_.progress, values));
  if (system_) {
    for (Measurement& value : system_->measure()) values.push_back(std::move(value));
  }
  context_.trackers.log(state_.progress.step, values);
  context_.record.log(state_.progress.step, values);
  record_use();
  context_.record.flush();
  state_.interval = {};
  throughput_ = {.started = training_seconds()};
}

void LogHook::log_histograms() {
  context_.check_folder();
  for (const Parameter& item : context_.job.parameters) {
    Parameter shard = item;
    if (context_.job.swapper) shard.local = context_.job.swapper->read(item.local);
    const at::Tensor whole = gather_whole(shard, context_.job.mesh).detach();
    const at::Tensor flat = whole.flatten().to(at::kCPU, at::kFloat).contiguous();
    const std::span<const float> values(flat.const_data_ptr<float>(),
                                        static_cast<size_t>(flat.numel()));
    context_.trackers.histogram(state_.progress.step, "weights/" + item.name, values);
  }
}

void LogHook::record_use() {
  if (!context_.saves) return;
  std::vector<std::pair<std::string, double>> phases = watch_.phases();
  std::vector<Measurement> values;
  for (size_t i = 0; i < phases.size(); ++i) {
    const double seconds =
        phases[i].second - (last_phase_times_.empty() ? 0 : last_phase_times_[i].second);
    constexpr double kMicroseconds = 1e6;  // more digits would only enlarge the record
    values.emplace_back("time/" + phases[i].first,
                        std::round(seconds * kMicroseconds) / kMicroseconds);
  }
  last_phase_times_ = std::move(phases);
  if (const auto memory = resident_mib()) {
    values.emplace_back("memory_mib", std::round(*memory * 10) / 10);
  }
  context_.record.use(state_.progress.step, values);
}

}  // namespace accel
