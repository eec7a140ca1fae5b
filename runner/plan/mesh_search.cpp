#include "runner/plan/mesh_search.h"

#include <algorithm>
#include <array>
#include <compare>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/formatted.h"
#include "core/base/text.h"
#include "runner/plan/fake_tensor_mode.h"
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

/// The order of the table: by time, then as mesh_choices() lists them.
struct Ranked {
  double seconds;
  size_t choice;
  friend auto operator<=>(const Ranked&, const Ranked&) = default;
};

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

/// Of search_meshes().
class Searcher {
 public:
  Searcher(const MeshRequest& request, const PlanWith& plan_with)
      : request_(request),
        plan_with_(plan_with),
        memory_(device_memory(request.hardware)),
        choices_(mesh_choices(request.ranks, request.hardware.ranks_per_machine)) {
    search_.ranks = request.ranks;
    search_.hardware = request.hardware;
    for (MeshChoice& choice : choices_) {
      choice.drops_pipeline = request.has_pipeline_options && choice.sizes.pipeline == 1;
    }
  }

  MeshSearch run() {
    std::vector<size_t> others;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (least_bytes(request_.whole, choices_[i]) > memory_) {
        ++search_.too_large;
        ++seen_;
      } else if (bounds_.contains(compute_axes(choices_[i]))) {
        others.push_back(i);
      } else {
        plan(i);
      }
    }
    const auto bound = [&](size_t i) { return bounds_.at(compute_axes(choices_[i])); };
    std::stable_sort(others.begin(), others.end(),
                     [&](size_t a, size_t b) { return bound(a) < bound(b); });
    for (size_t i = 0; i < others.size(); ++i) {
      if (bound(others[i]) > longest_of_top()) {
        search_.slower = static_cast<int64_t>(others.size() - i);
        break;
      }
      plan(others[i]);
    }
    for (const Ranked& item : ranked_) search_.fitting.push_back(estimates_.at(item.choice));
    return std::move(search_);
  }

 private:
  /// What determines the computation of a rank.
  using ComputeAxes = std::array<int64_t, 3>;
  static ComputeAxes compute_axes(const MeshChoice& choice) {
    return {choice.sizes.tensor, choice.sizes.pipeline, choice.sizes.context};
  }

  double longest_of_top() const {
    if (ranked_.size() < request_.top) return std::numeric_limits<double>::infinity();
    return std::next(ranked_.begin(), static_cast<ptrdiff_t>(request_.top) - 1)->seconds;
  }

  void plan(size_t i) {
    shown_.progress(++seen_, static_cast<int64_t>(choices_.size()));
    try {
      const FakeMemoryLimit limit(static_cast<int64_t>(memory_));
      const Plan made = plan_with_(choices_[i].overrides());
      bounds_.try_emplace(compute_axes(choices_[i]),
                          least_step_seconds(made, request_.hardware, request_.mode));
      const MeshEstimate item = estimate(choices_[i], request_, made);
      if (item.memory > memory_) {
        ++search_.too_large;
        return;
      }
      ranked_.insert({item.time.total(), i});
      estimates_.emplace(i, item);
    } catch (const MemoryLimitError&) {
      ++search_.too_large;
    } catch (const Error& error) {
      ++search_.refused[reason_of(error)];
    }
  }

  const MeshRequest& request_;
  const PlanWith& plan_with_;
  const double memory_;
  std::vector<MeshChoice> choices_;
  std::map<ComputeAxes, double> bounds_;  ///< seconds
  std::set<Ranked> ranked_;
  std::map<size_t, MeshEstimate> estimates_;
  MeshSearch search_;
  Activity shown_{"planning meshes", "meshes"};
  int64_t seen_ = 0;
};

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
  std::vector<std::string> out = {text("accelerator.num_processes={}", sizes.ranks()),
                                  text("accelerator.fsdp.stage={}", stage),
                                  text("accelerator.parallelism!={{}}", joined(axes))};
  if (drops_pipeline) out.emplace_back("accelerator.pipeline!={}");
  return out;
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
  return Searcher(request, plan_with).run();
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
  if (search.slower > 0) {
    const bool one = search.slower == 1;
    lines.push_back(text(
        "  and {} that {} not planned: {} computation alone takes longer than the last of these",
        search.slower, one ? "was" : "were", one ? "its" : "their"));
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
