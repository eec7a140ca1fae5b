#include "runner/plan/mesh_search.h"

#include <algorithm>
#include <string_view>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/formatted.h"
#include "core/base/text.h"
#include "runner/plan/number_text.h"

namespace accel {
namespace {

constexpr int64_t kMostStages = 128, kMostContext = 64;

std::vector<int64_t> divisors(int64_t number, int64_t most) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i <= std::min(number, most); ++i) {
    if (number % i == 0) out.push_back(i);
  }
  return out;
}

/// The stages and divisions of `data` data parallel ranks.
void add_data_parallel(MeshSizes sizes, int64_t data, int64_t ranks_per_machine,
                       std::vector<MeshChoice>& out) {
  sizes.replicate = data;
  out.push_back({sizes, 0});
  if (data == 1) return;
  const int64_t inside = ranks_per_machine / (sizes.tensor * sizes.context);
  for (const int64_t stage : {1, 3}) {
    sizes.shard = data;
    sizes.replicate = 1;
    out.push_back({sizes, stage});
    if (inside < 2 || inside >= data || data % inside != 0) continue;
    sizes.shard = inside;
    sizes.replicate = data / inside;
    out.push_back({sizes, stage});
  }
}

/// Bytes that the rank with the most holds at least.
double least_bytes(const PlannedMemory& whole, const MeshChoice& choice) {
  const auto divided = static_cast<double>(choice.sizes.tensor * choice.sizes.pipeline);
  const auto shards = static_cast<double>(choice.sizes.shard);
  const double weights = static_cast<double>(whole.weights) / divided;
  const double trained = static_cast<double>(whole.gradients + whole.optimizer) / divided;
  return choice.stage == 3 ? (weights + trained) / shards : weights + trained / shards;
}

MeshEstimate estimate(const MeshChoice& choice, const MeshRequest& request, const Plan& plan) {
  MeshEstimate out;
  out.choice = choice;
  out.time = estimate_step(plan, request.hardware, request.mode);
  out.memory = device_bytes(plan);
  const double work = out.time.total() * static_cast<double>(request.ranks);
  out.flops = plan.flops / work;
  out.tokens = static_cast<double>(plan.tokens) / work;
  return out;
}

/// The message without its place and the lines below.
std::string reason_of(const Error& error) {
  constexpr std::string_view kMark = "error: ";
  std::string line = error.what();
  line.resize(std::min(line.size(), line.find('\n')));
  const size_t mark = line.find(kMark);
  return mark == line.npos ? line : line.substr(mark + kMark.size());
}

std::string row_text(const MeshEstimate& item, size_t width) {
  const StepTime& time = item.time;
  const auto percent = [&](double part) { return 100 * part / time.total(); };
  const std::string mesh = mesh_text(item.choice.sizes);
  return formatted("  %-*s  %4d  %8.3g s  %8.0f  %7.1f  %9s  %6.0f%%  %6.0f%%  %6.0f%%  %6.0f%%",
                   static_cast<int>(width), mesh.c_str(), static_cast<int>(item.choice.stage),
                   time.total(), item.tokens, item.flops / 1e12,
                   bytes_text(static_cast<int64_t>(item.memory)).c_str(), percent(time.compute),
                   percent(time.layers), percent(time.bubble), percent(time.data_parallel));
}

}  // namespace

std::vector<std::string> MeshChoice::overrides() const {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : kMeshAxes) {
    if (sizes.*axis.size == 1) continue;
    axes.push_back(text("{}: {}", axis.name, sizes.*axis.size));
  }
  if (sizes.tensor > 1) axes.emplace_back("sequence_parallel: true");
  return {text("accelerator.num_processes={}", sizes.ranks()),
          text("accelerator.fsdp.stage={}", stage),
          text("accelerator.parallelism!={{}}", joined(axes))};
}

std::vector<MeshChoice> mesh_choices(int64_t ranks, int64_t ranks_per_machine) {
  std::vector<MeshChoice> out;
  for (const int64_t tensor : divisors(ranks, ranks_per_machine)) {
    for (const int64_t pipeline : divisors(ranks / tensor, kMostStages)) {
      for (const int64_t context : divisors(ranks / tensor / pipeline, kMostContext)) {
        MeshSizes sizes;
        sizes.tensor = tensor;
        sizes.pipeline = pipeline;
        sizes.context = context;
        add_data_parallel(sizes, ranks / tensor / pipeline / context, ranks_per_machine, out);
      }
    }
  }
  return out;
}

MeshSearch search_meshes(const MeshRequest& request, const PlanWith& plan_with) {
  MeshSearch search;
  search.ranks = request.ranks;
  search.hardware = request.hardware;
  const double memory = device_memory(request.hardware);
  const std::vector<MeshChoice> choices =
      mesh_choices(request.ranks, request.hardware.ranks_per_machine);
  Activity shown("planning meshes", "meshes");
  for (size_t i = 0; i < choices.size(); ++i) {
    shown.progress(static_cast<int64_t>(i), static_cast<int64_t>(choices.size()));
    if (least_bytes(request.whole, choices[i]) > memory) {
      ++search.too_large;
      continue;
    }
    try {
      const MeshEstimate made = estimate(choices[i], request, plan_with(choices[i].overrides()));
      if (made.memory > memory) {
        ++search.too_large;
      } else {
        search.fitting.push_back(made);
      }
    } catch (const Error& error) {
      ++search.refused[reason_of(error)];
    }
  }
  std::stable_sort(
      search.fitting.begin(), search.fitting.end(),
      [](const MeshEstimate& a, const MeshEstimate& b) { return a.time.total() < b.time.total(); });
  return search;
}

std::vector<std::string> mesh_lines(const MeshSearch& search, const std::string& recipe,
                                    size_t most) {
  const Hardware& hardware = search.hardware;
  std::vector<std::string> lines = {
      text("meshes of {} ranks on {}, {} per machine: estimates, the fastest first", search.ranks,
           hardware.name, hardware.ranks_per_machine)};
  size_t width = 4;
  const size_t shown = std::min(most, search.fitting.size());
  for (size_t i = 0; i < shown; ++i) {
    width = std::max(width, mesh_text(search.fitting[i].choice.sizes).size());
  }
  if (shown > 0) {
    lines.push_back(formatted("  %-*s  %4s  %10s  %8s  %7s  %9s  %7s  %7s  %7s  %7s",
                              static_cast<int>(width), "", "", "", "tokens/s", "TFLOP/s", "memory",
                              "", "in", "", "data"));
    lines.push_back(formatted("  %-*s  %4s  %10s  %8s  %7s  %9s  %7s  %7s  %7s  %7s",
                              static_cast<int>(width), "mesh", "fsdp", "a step", "per rank",
                              "per rank", "per rank", "compute", "layers", "bubble", "parallel"));
  }
  for (size_t i = 0; i < shown; ++i) lines.push_back(row_text(search.fitting[i], width));
  if (search.fitting.size() > shown) {
    const size_t more = search.fitting.size() - shown;
    lines.push_back(text("  and {} slower {}", more, more == 1 ? "one" : "ones"));
  }
  if (search.too_large > 0) {
    lines.push_back(text("{} {} more than the {} of a rank", search.too_large,
                         search.too_large == 1 ? "needs" : "need",
                         bytes_text(static_cast<int64_t>(device_memory(hardware)))));
  }
  for (const auto& [reason, count] : search.refused) {
    lines.push_back(
        text("{} {} not suit the recipe: {}", count, count == 1 ? "does" : "do", reason));
  }
  if (shown > 0) {
    lines.push_back(text("the fastest: accel-run {} {}", recipe,
                         joined(search.fitting.front().choice.overrides(), " ", single_quoted)));
  }
  return lines;
}

}  // namespace accel
