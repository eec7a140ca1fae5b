#include "runner/plan/plan_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/formatted.h"
#include "core/base/progress_text.h"
#include "runner/plan/number_text.h"

namespace accel {
namespace {

constexpr size_t kMostAdvice = 3;

class Candidates {
 public:
  void add(std::vector<std::string> overrides, const char* price) {
    Advice& advice = all_.emplace_back();
    advice.overrides = std::move(overrides);
    advice.price = price;
  }
  std::vector<Advice> take() { return std::move(all_); }

 private:
  std::vector<Advice> all_;
};

/// Possible changes and their drawbacks, cheapest first.
std::vector<Advice> candidates(const RecipeOptions& recipe, const Plan& plan) {
  Candidates all;
  if (plan.memory.copy > 0) {
    all.add({"checkpoint.async=false"}, "training waits while a checkpoint is written");
  }
  if (recipe.data.loader.workers > 0 && recipe.data.loader.prefetch > 1) {
    all.add({"data.loader.prefetch=1"}, "training may wait for samples");
  }
  // With a fixed number of micro-batches their size follows.
  const bool by_number = recipe.train.gradient_accumulation_steps && !recipe.train.micro_batch;
  const int64_t share = plan.batches.micro_batch * plan.batches.accumulation;
  for (int64_t size = plan.batches.micro_batch / 2; size > 0; size /= 2) {
    if (share % size != 0) continue;
    all.add({by_number ? "train.gradient_accumulation_steps=" + std::to_string(share / size)
                       : "train.micro_batch=" + std::to_string(size)},
            "the batch is split into more, smaller micro-batches");
  }
  for (int64_t stage = recipe.accelerator.fsdp.stage + 1; plan.batches.world > 1 && stage <= 3;
       ++stage) {
    all.add({"accelerator.fsdp.stage=" + std::to_string(stage)},
            stage < 3 ? "ranks send more, smaller messages" : "ranks send 1.5 times as much");
  }
  if (recipe.accelerator.mixed_precision == MixedPrecision::kNo) {
    all.add({"accelerator.mixed_precision=bf16"}, "lower numerical precision");
  }
  if (recipe.optimizer.type != "adafactor") {
    all.add({"optimizer.type=adafactor"}, "other updates: tune the learning rate again");
  }
  if (recipe.accelerator.fsdp.offload != Offload::kDisk) {
    all.add({"accelerator.fsdp.stage=3", "accelerator.fsdp.offload=disk"},
            "a step reads and writes the training state on the disk");
  }
  return all.take();
}

/// Whether the same key is already present at a lower cost.
bool is_more_of(const Advice& advice, const std::vector<Advice>& present) {
  return !present.empty() && present.back().price == advice.price;
}

std::string batch_cell(const Plan& plan) {
  const BatchPlan& batches = plan.batches;
  return std::to_string(batches.batch) + " = " + std::to_string(batches.micro_batch) + " x " +
         std::to_string(batches.accumulation) + " x " + std::to_string(batches.world);
}

std::string steps_cell(const Plan& plan) {
  return plan.total_steps > 0 ? with_commas(plan.total_steps) : std::string("by time");
}

struct TableRow {
  std::string label;
  std::function<std::string(const Plan&)> cell;
};

int64_t bytes_sent(const Plan& plan) {
  int64_t sum = 0;
  for (const auto& [key, sent] : plan.traffic) sum += sent.bytes;
  return sum;
}

/// "gradients"; in a mesh of more than data parallel axes "gradients, along dp_shard".
std::string traffic_label(const Plan& plan, const TrafficKey& key) {
  if (plan.mesh.ranks() == plan.mesh.data()) return key.purpose;
  const std::string axes = axes_of(plan.mesh, key.group);
  return axes.empty() ? key.purpose : key.purpose + ", along " + axes;
}

/// Communication volume of a step by purpose and axes; those below 1 % are one row.
std::vector<TableRow> traffic_rows(const PlanPage& page) {
  std::map<std::string, int64_t> all;
  int64_t total = 0;
  for (const Plan& plan : page.plans) {
    for (const auto& [key, sent] : plan.traffic) all[traffic_label(plan, key)] += sent.bytes;
    total += bytes_sent(plan);
  }
  if (total == 0) return {};
  // Bytes of the rows for which `take` is true.
  const auto sum = [](const Plan& plan, const std::function<bool(const std::string&)>& take) {
    int64_t bytes = 0;
    for (const auto& [key, sent] : plan.traffic) {
      if (take(traffic_label(plan, key))) bytes += sent.bytes;
    }
    return bytes_text(bytes);
  };
  std::vector<TableRow> rows = {
      {"traffic per step and rank", [](const Plan& plan) { return bytes_text(bytes_sent(plan)); }}};
  std::set<std::string> small;
  for (const auto& [label, bytes] : all) {
    if (bytes < total / 100) {
      small.insert(label);
      continue;
    }
    rows.push_back({"  " + label, [sum, name = label](const Plan& plan) {
                      return sum(plan, [&](const std::string& row) { return row == name; });
                    }});
  }
  if (!small.empty()) {
    rows.push_back({"  others", [sum, small](const Plan& plan) {
                      return sum(plan, [&](const std::string& row) { return small.contains(row); });
                    }});
  }
  return rows;
}

/// Of memory, in a mesh whose ranks differ: "rank 3 (pp 1)".
std::string largest_rank_text(const Plan& plan) {
  if (plan.largest_rank == 0) return "";
  return text("rank {} ({})", plan.largest_rank, mesh_place(plan.mesh, plan.largest_rank));
}

std::vector<TableRow> table_rows(const PlanPage& page) {
  const auto memory = [](const char* label, int64_t PlannedMemory::*part) {
    return TableRow{label, [part](const Plan& plan) { return bytes_text(plan.memory.*part); }};
  };
  std::vector<TableRow> rows = {
      {"batch = micro x accumulated x ranks", &batch_cell},
      {"steps", &steps_cell},
      {"steps per epoch", [](const Plan& p) { return with_commas(p.steps_per_epoch); }},
      {"compute per step, all ranks", [](const Plan& p) { return flop_text(p.flops); }}};
  const std::vector<TableRow> traffic = traffic_rows(page);
  rows.insert(rows.end(), traffic.begin(), traffic.end());
  const bool offloads = std::any_of(page.plans.begin(), page.plans.end(),
                                    [](const Plan& plan) { return plan.scratch_bytes > 0; });
  if (offloads) {
    rows.push_back({"scratch file on disk per rank",
                    [](const Plan& plan) { return bytes_text(plan.scratch_bytes); }});
  }
  const std::vector<TableRow> of_memory = {
      {"memory per rank", &largest_rank_text},
      memory("  weights", &PlannedMemory::weights),
      memory("  gradients", &PlannedMemory::gradients),
      memory("  optimizer state", &PlannedMemory::optimizer),
      memory("  activations", &PlannedMemory::activations),
      memory("  fragmentation", &PlannedMemory::fragmentation),
      memory("  matmul workspace", &PlannedMemory::packing),
      memory("  buckets and averages", &PlannedMemory::others),
      memory("  prefetched samples", &PlannedMemory::loader),
      memory("  checkpoint snapshot", &PlannedMemory::copy),
      {"  the process itself", [&](const Plan&) { return bytes_text(page.process); }},
      {"  total", [&](const Plan& p) { return bytes_text(rank_bytes(page, p)); }}};
  rows.insert(rows.end(), of_memory.begin(), of_memory.end());
  if (page.available > 0) {
    rows.push_back({"ranks that fit on this machine", [&](const Plan& p) {
                      return with_commas(page.available / rank_bytes(page, p));
                    }});
  }
  return rows;
}

std::vector<std::string> table(const PlanPage& page) {
  std::vector<std::vector<std::string>> cells = {{""}};
  for (const Plan& plan : page.plans) {
    cells[0].push_back(std::to_string(plan.ranks()) + (plan.ranks() == 1 ? " rank" : " ranks"));
  }
  for (const TableRow& row : table_rows(page)) {
    cells.push_back({row.label});
    for (const Plan& plan : page.plans) cells.back().push_back(row.cell(plan));
  }
  std::vector<size_t> widths(page.plans.size() + 1);
  for (const auto& row : cells) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const auto& row : cells) {
    std::string line = row[0];
    size_t end = widths[0];
    for (size_t i = 1; i < row.size(); ++i) {
      if (row[i].empty()) continue;
      end += 2 + widths[i];
      line.resize(end - row[i].size(), ' ');
      line += row[i];
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The stages of a pipeline and its schedule.
std::vector<std::string> pipeline_lines(const Plan& plan) {
  if (!plan.pipeline) return {};
  std::vector<std::string> lines = {"pipeline: " + plan.pipeline->summary};
  const std::vector<PlannedStage>& ranks = plan.pipeline->ranks;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    lines.push_back("  rank " + std::to_string(rank) + "  " + ranks[rank].blocks + ": " +
                    bytes_text(ranks[rank].bytes()) +
                    " of weights, gradients and optimizer state, activations of up to " +
                    std::to_string(ranks[rank].alive) + " micro-batches");
  }
  lines.emplace_back("passes of equal time: F forward, B backward, I and W its halves");
  for (const std::string& line : plan.pipeline->drawing) lines.push_back("  " + line);
  return lines;
}

std::string shape_text(const DataSchema& data) {
  std::string text = with_commas(data.train_samples) + " samples of " + to_string(data.shape.input);
  if (data.eval_samples > 0) text += ", eval " + with_commas(data.eval_samples);
  return text;
}

}  // namespace

std::vector<Advice> advise(const RecipeOptions& recipe, const Plan& plan, int64_t process,
                           int64_t bytes, const Replan& replan) {
  std::vector<Advice> good;
  Advice joined;
  for (Advice& advice : candidates(recipe, plan)) {
    if (good.size() == kMostAdvice) break;
    if (is_more_of(advice, good)) continue;
    const std::optional<Plan> then = replan(advice.overrides);
    if (!then || then->memory.total() >= plan.memory.total()) continue;
    advice.bytes = process + then->memory.total();
    if (advice.bytes <= bytes) {
      good.push_back(std::move(advice));
    } else if (good.empty()) {
      // The later of two micro-batch sizes wins.
      joined.overrides.insert(joined.overrides.end(), advice.overrides.begin(),
                              advice.overrides.end());
      joined.price += (joined.price.empty() || joined.price.ends_with(advice.price) ? "" : "; ");
      if (!joined.price.ends_with(advice.price)) joined.price += advice.price;
    }
  }
  if (!good.empty() || joined.overrides.empty()) return good;
  const std::optional<Plan> then = replan(joined.overrides);
  if (!then || process + then->memory.total() > bytes) return {};
  joined.bytes = process + then->memory.total();
  return {joined};
}

std::string lower_stage_line(const RecipeOptions& recipe, int64_t process, int64_t bytes,
                             const Replan& replan) {
  if (recipe.accelerator.fsdp.offload == Offload::kDisk) {
    std::vector<std::string> changes = {"accelerator.fsdp.offload=none"};
    if (recipe.accelerator.fsdp.offload_path) {
      changes.emplace_back("accelerator.fsdp.offload_path=auto");
    }
    const std::optional<Plan> then = replan(changes);
    if (!then || process + then->memory.total() > bytes) return "";
    return "memory holds the training state too: " + changes.front() + " takes " +
           bytes_text(process + then->memory.total()) + " per rank";
  }
  for (int64_t stage = 0; stage < recipe.accelerator.fsdp.stage; ++stage) {
    const std::string change = "accelerator.fsdp.stage=" + std::to_string(stage);
    const std::optional<Plan> then = replan({change});
    if (!then || process + then->memory.total() > bytes) continue;
    return "a lower stage fits too: " + change + " takes " +
           bytes_text(process + then->memory.total()) + " per rank";
  }
  return "";
}

int64_t rank_bytes(const PlanPage& page, const Plan& plan) {
  return page.process + plan.memory.total();
}

bool fits(const PlanPage& page) {
  return page.available == 0 ||
         std::all_of(page.plans.begin(), page.plans.end(),
                     [&](const Plan& plan) { return rank_bytes(page, plan) <= page.available; });
}

std::vector<std::string> plan_lines(const PlanPage& page) {
  const Plan& first = page.plans.front();
  std::vector<std::string> lines = {"plan of " + page.name};
  const auto add = [&](const char* name, const std::string& text) {
    lines.push_back(formatted("  %-11s", name) + text);
  };
  std::string model = page.model + ", " + with_commas(first.parameters) + " parameters";
  if (first.trained != first.parameters) {
    model += ", " + with_commas(first.trained) + " trainable";
  }
  add("model", model);
  add("data", shape_text(first.data) + "; " + bytes_text(first.dataset_bytes) + " as model inputs");
  if (!first.data.mixture.empty()) add("mixture", first.data.mixture);
  add("checkpoint",
      bytes_text(first.checkpoint_bytes) + ", up to " + std::to_string(first.checkpoints_kept) +
          " at once: " + bytes_text(first.checkpoint_bytes * first.checkpoints_kept) + " of disk");
  if (page.step_seconds > 0 && first.total_steps > 0) {
    add("time", clock_text(page.step_seconds * static_cast<double>(first.total_steps)) +
                    formatted(", at %.3g s per step as in the earlier run", page.step_seconds));
  }
  for (const Plan& plan : page.plans) {
    const std::string mesh = mesh_summary(plan.mesh);
    if (!mesh.empty()) add("mesh", mesh);
    if (!plan.experts.empty()) add("experts", plan.experts);
  }
  // The same with any number of ranks, which read for themselves.
  if (!page.plans.empty() && !page.plans.front().streaming.empty()) {
    add("streams", page.plans.front().streaming);
  }
  if (page.available > 0) add("machine", bytes_text(page.available) + " of memory available");
  for (std::string& line : table(page)) lines.push_back(std::move(line));
  for (const Plan& plan : page.plans) {
    for (std::string& line : pipeline_lines(plan)) lines.push_back(std::move(line));
  }
  for (const Plan& plan : page.plans) {
    if (plan.start_peak == 0) continue;
    lines.push_back(text("with {} ranks memory peaks while the model is built: {} of tensors",
                         plan.ranks(), bytes_text(plan.start_peak)));
  }
  for (const Plan& plan : page.plans) {
    if (page.available == 0 || rank_bytes(page, plan) <= page.available) continue;
    lines.push_back(text("does not fit with {} {}: a rank needs {}, {} are available", plan.ranks(),
                         plan.ranks() == 1 ? "rank" : "ranks", bytes_text(rank_bytes(page, plan)),
                         bytes_text(page.available)));
  }
  if (page.available > 0 && fits(page)) lines.emplace_back("fits");
  return lines;
}

std::vector<std::string> advice_lines(const std::vector<Advice>& advice) {
  if (advice.empty()) {
    return {
        "no change of batches, precision or optimizer makes it fit: use a smaller model or "
        "another machine"};
  }
  std::vector<std::string> lines = {"changes that make it fit, cheapest first:"};
  for (const Advice& change : advice) {
    std::string line = " ";
    for (const std::string& text : change.overrides) line.append(" ").append(text);
    line.append(": ").append(bytes_text(change.bytes)).append(", but ").append(change.price);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace accel
