#include "runner/plan/plan_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "runner/loop/progress_bar.h"

namespace accel {
namespace {

template <class... Args>
std::string formatted(const char* pattern, Args... args) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

/// 1,234,567
std::string with_commas(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// Three digits and the largest of the units that leaves a whole one.
std::string scaled(double value, double base, std::initializer_list<const char*> units) {
  const auto* unit = units.begin();
  while (value >= base * 0.9995 && unit + 1 != units.end()) {
    value /= base;
    ++unit;
  }
  const int digits = value >= 99.95 || unit == units.begin() ? 0 : value >= 9.995 ? 1 : 2;
  return formatted("%.*f %s", digits, value, *unit);
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

std::vector<TableRow> table_rows(const PlanPage& page) {
  const auto memory = [](const char* label, int64_t PlannedMemory::*part) {
    return TableRow{label, [part](const Plan& plan) { return bytes_text(plan.memory.*part); }};
  };
  std::vector<TableRow> rows = {
      {"batch = micro x accumulated x ranks", &batch_cell},
      {"steps", &steps_cell},
      {"steps of an epoch", [](const Plan& p) { return with_commas(p.steps_per_epoch); }},
      {"compute of a step, all ranks", [](const Plan& p) { return flop_text(p.flops); }},
      {"memory of a rank", [](const Plan&) { return std::string(); }},
      memory("  weights", &PlannedMemory::weights),
      memory("  gradients", &PlannedMemory::gradients),
      memory("  optimizer state", &PlannedMemory::optimizer),
      memory("  activations", &PlannedMemory::activations),
      memory("  holes in the heap", &PlannedMemory::holes),
      memory("  copies for products", &PlannedMemory::packing),
      memory("  buckets and averages", &PlannedMemory::others),
      memory("  samples prepared ahead", &PlannedMemory::loader),
      memory("  copy for a checkpoint", &PlannedMemory::copy),
      {"  the process itself", [&](const Plan&) { return bytes_text(page.process); }},
      {"  total", [&](const Plan& p) { return bytes_text(rank_bytes(page, p)); }}};
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
    cells[0].push_back(std::to_string(plan.batches.world) +
                       (plan.batches.world == 1 ? " rank" : " ranks"));
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

std::string shape_text(const DataFacts& data) {
  std::string text = with_commas(data.train_samples) + " samples of " + to_string(data.shape.input);
  if (data.eval_samples > 0) text += ", eval " + with_commas(data.eval_samples);
  return text;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string flop_text(double flops) {
  return scaled(flops, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
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
    model += ", " + with_commas(first.trained) + " of them trained";
  }
  add("model", model);
  add("data",
      shape_text(first.data) + "; " + bytes_text(first.dataset_bytes) + " as the model takes them");
  add("checkpoint",
      bytes_text(first.checkpoint_bytes) + ", up to " + std::to_string(first.checkpoints_kept) +
          " at once: " + bytes_text(first.checkpoint_bytes * first.checkpoints_kept) + " of disk");
  if (page.step_seconds > 0 && first.total_steps > 0) {
    add("time", clock_text(page.step_seconds * static_cast<double>(first.total_steps)) +
                    formatted(", at %.3g s a step as the run in its folder", page.step_seconds));
  }
  if (page.available > 0) add("machine", bytes_text(page.available) + " of memory available");
  for (std::string& line : table(page)) lines.push_back(std::move(line));
  for (const Plan& plan : page.plans) {
    if (page.available == 0 || rank_bytes(page, plan) <= page.available) continue;
    lines.push_back("does not fit: one of " + std::to_string(plan.batches.world) +
                    (plan.batches.world == 1 ? " rank takes " : " ranks takes ") +
                    bytes_text(rank_bytes(page, plan)) + ", " + bytes_text(page.available) +
                    " are available");
  }
  if (page.available > 0 && fits(page)) lines.emplace_back("fits");
  return lines;
}

std::vector<std::string> advice_lines(const std::vector<Advice>& advice) {
  if (advice.empty()) {
    return {
        "no change of batches, precision or optimizer makes it fit: take a smaller model or "
        "another machine"};
  }
  std::vector<std::string> lines = {"what makes it fit, cheapest first:"};
  for (const Advice& change : advice) {
    std::string line = " ";
    for (const std::string& text : change.overrides) line.append(" ").append(text);
    line.append(": ").append(bytes_text(change.bytes)).append(", but ").append(change.price);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace accel
