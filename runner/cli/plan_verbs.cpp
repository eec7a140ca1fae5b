// plan and estimate-memory.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>

#include "core/base/log.h"
#include "core/base/text.h"
#include "formats/tensors/weight_shards.h"
#include "models/hf/hf_weights.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/launch/memory_limits.h"
#include "runner/placement/weight_placement.h"
#include "runner/plan/forecast.h"
#include "runner/plan/hardware.h"
#include "runner/plan/mesh_search.h"
#include "runner/plan/plan_text.h"
#include "track/system_metrics.h"

namespace accel {
namespace {

/// Of "1,2,8". Throws Error.
std::vector<int64_t> ranks_of(const std::string& list) {
  std::vector<int64_t> ranks;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const std::optional<int64_t> number = parse_integer({word}).value;
    constexpr int64_t kMost = 1 << 20;
    if (!number || *number < 1 || *number > kMost) {
      throw Error(ExitCode::kRecipe,
                  text("'--ranks' has '{}', which is not a number of ranks", word),
                  "give numbers such as '--ranks 1,2,8'");
    }
    ranks.push_back(*number);
  }
  if (ranks.empty()) {
    throw Error(ExitCode::kRecipe, "'--ranks' is empty", "give numbers such as '--ranks 1,2,8'");
  }
  return ranks;
}

/// Plans the recipe again with overrides, for as many ranks as `plan`.
Replan replan_of(const RecipeArguments& arguments, const Plan& plan) {
  return [&](const std::vector<std::string>& overrides) -> std::optional<Plan> {
    RecipeArguments changed = arguments;
    changed.overrides.insert(changed.overrides.end(), overrides.begin(), overrides.end());
    try {
      const LoadedRecipe other = load_recipe(changed);
      return make_plan(other.options, other.resolved, components(), plan.data, plan.ranks());
    } catch (const Error&) {
      return std::nullopt;
    }
  };
}

struct PlanArguments {
  RecipeArguments recipe;
  std::string ranks;
  std::vector<std::string> hardware;
  size_t top = 12;
  bool names = false;
  PlacementFlags placement;
};

bool has_options(const PipelineSection& pipeline) {
  return pipeline.schedule != PipelineSection().schedule || pipeline.stages_per_rank ||
         !pipeline.blocks.empty();
}

/// CLI11 gives '--hardware' all words that follow it. Moves those like 'train.batch=8' to the
/// overrides of the recipe.
void take_overrides(PlanArguments& arguments) {
  const auto is_override = [](const std::string& word) {
    return word.find('.') < word.find('=') && word.find('=') != word.npos;
  };
  std::vector<std::string>& words = arguments.hardware;
  if (words.empty()) return;
  std::copy_if(words.begin() + 1, words.end(), std::back_inserter(arguments.recipe.overrides),
               is_override);
  words.erase(std::remove_if(words.begin() + 1, words.end(), is_override), words.end());
}

/// Refuses overrides of what the search replaces.
void refuse_mesh(const std::vector<std::string>& overrides) {
  for (const std::string& word : overrides) {
    const std::string key = word.substr(0, word.find_first_of("=!+"));
    if (key != "accelerator.fsdp.stage" && key != "accelerator.parallelism" &&
        !key.starts_with("accelerator.parallelism.")) {
      continue;
    }
    throw Error(ExitCode::kRecipe, text("'{}' has no effect: '--hardware' plans every mesh", word),
                "leave it out, or plan that mesh on this machine, without '--hardware'");
  }
}

/// Estimates for the meshes of these ranks. `pipeline`: of the recipe.
ExitCode print_meshes(const PlanArguments& plan_arguments, const PipelineSection& pipeline,
                      const Hardware& hardware, int64_t ranks) {
  const RecipeArguments& arguments = plan_arguments.recipe;
  const auto load_with = [&](const std::vector<std::string>& overrides) {
    RecipeArguments changed = arguments;
    changed.overrides.insert(changed.overrides.end(), overrides.begin(), overrides.end());
    return load_recipe(changed);
  };
  const LoadedRecipe alone =
      load_with(MeshChoice{.sizes = {}, .drops_pipeline = has_options(pipeline)}.overrides());
  const DataSchema data = open_data(alone.options, alone.resolved, components());
  const MeshRequest request = {ranks,
                               hardware,
                               compute_mode(alone.options),
                               plan_state(alone.options, alone.resolved, components(), data, 1),
                               plan_arguments.top,
                               has_options(pipeline)};
  const auto plan_with = [&](const std::vector<std::string>& overrides) {
    const LoadedRecipe other = load_with(overrides);
    return make_plan(other.options, other.resolved, components(), data,
                     {ranks, PlanDetail::kExtrapolated});
  };
  const MeshSearch search = search_meshes(request, plan_with);
  std::string recipe = arguments.path;
  for (const std::string& word : arguments.overrides) recipe += " " + single_quoted(word);
  for (const std::string& line : mesh_lines(search, recipe, plan_arguments.top)) say(line);
  return search.fitting.empty() ? ExitCode::kMemory : ExitCode::kDone;
}

ExitCode print_metric_names(const LoadedRecipe& loaded) {
  const DataSchema data = open_data(loaded.options, loaded.resolved, components());
  const int64_t world = loaded.options.accelerator.num_processes.value_or(1);
  const Plan plan = make_plan(loaded.options, loaded.resolved, components(), data, world);
  for (const std::string& name : plan.names) say(name);
  if (!loaded.options.log.system) return ExitCode::kDone;
  for (const auto& [name, value] : SystemMetrics(".").measure()) say(name);
  return ExitCode::kDone;
}

/// Of the disk with the weights that the recipe's model begins with; 0: it has none.
double weights_rate(const Node& resolved) {
  const Node::Entry* model = resolved.find("model");
  const Node::Entry* weights = model ? model->node.find("weights") : nullptr;
  const Scalar* folder = weights ? weights->node.scalar() : nullptr;
  if (!folder || folder->text.empty() || weights->node.null()) return 0;
  const HfWeights files(folder->text);
  std::vector<std::span<const std::byte>> mapped;
  for (const NamedArray& item : files.tensors()) {
    mapped.emplace_back(item.array.data(), item.array.bytes());
  }
  return disk_rate_of(std::move(mapped));
}

/// The placement of the model for inference.
ExitCode print_placement_plan(const LoadedRecipe& loaded, const PlacementRequest& placement) {
  const DataSchema data = open_data(loaded.options, loaded.resolved, components());
  visit_fake_model(loaded.options, loaded.resolved, components(), data, [&](Model& model) {
    print_placement(model, placement, std::cout, [&] { return weights_rate(loaded.resolved); });
  });
  return ExitCode::kDone;
}

ExitCode plan_verb(PlanArguments plan_arguments) {
  take_overrides(plan_arguments);
  const PlacementRequest placement = placement_request(plan_arguments.placement);
  const RecipeArguments& arguments = plan_arguments.recipe;
  if (!plan_arguments.hardware.empty()) refuse_mesh(arguments.overrides);
  const LoadedRecipe loaded = load_runnable(arguments);
  if (plan_arguments.names) return print_metric_names(loaded);
  report_layers(arguments, loaded);
  if (plan_arguments.placement.is_set()) return print_placement_plan(loaded, placement);
  const auto processes = loaded.options.accelerator.num_processes;
  const std::vector<int64_t> worlds = plan_arguments.ranks.empty()
                                          ? std::vector<int64_t>{processes.value_or(1)}
                                          : ranks_of(plan_arguments.ranks);
  if (!plan_arguments.hardware.empty()) {
    const Hardware hardware = hardware_of(plan_arguments.hardware);
    ExitCode code = ExitCode::kDone;
    for (const int64_t world : worlds) {
      const ExitCode one =
          print_meshes(plan_arguments, loaded.options.accelerator.pipeline, hardware, world);
      if (one != ExitCode::kDone) code = one;
    }
    return code;
  }
  const DataSchema data = open_data(loaded.options, loaded.resolved, components());
  PlanPage page;
  page.name = arguments.path;
  page.model = loaded.options.model.type;
  page.process = static_cast<int64_t>(resident_mib().value_or(0) * (1 << 20)) + kTorchRuntimeBytes;
  page.available = available_memory();
  for (const int64_t world : worlds) {
    page.plans.push_back(make_plan(loaded.options, loaded.resolved, components(), data, world));
  }
  page.step_seconds = known_step_seconds("runs/" + loaded.options.name, page.plans.front().batches);
  for (const std::string& line : plan_lines(page)) say(line);
  if (fits(page)) {
    const std::string lower = lower_stage_line(loaded.options, page.process, page.available,
                                               replan_of(arguments, page.plans.front()));
    if (!lower.empty()) say(lower);
    return ExitCode::kDone;
  }
  for (const Plan& plan : page.plans) {
    if (rank_bytes(page, plan) <= page.available) continue;
    const std::vector<Advice> advice =
        advise(loaded.options, plan, page.process, page.available, replan_of(arguments, plan));
    for (const std::string& line : advice_lines(advice)) say(line);
    break;
  }
  return ExitCode::kMemory;
}

/// Bytes of a parameter, and of its training state with Adam; 0: not trainable in this type.
struct NumberType {
  double stored;
  double trained;
};

/// As Accelerate counts: for float32 weights, gradients and two moments; for float16 only the
/// largest item, the moments in float32.
const std::map<std::string, NumberType>& number_types() {
  static const std::map<std::string, NumberType> kTypes = {
      {"float32", {4, 16}}, {"float16", {2, 8}}, {"int8", {1, 0}}, {"int4", {0.5, 0}}};
  return kTypes;
}

std::string size_cell(double bytes) {
  constexpr std::array kUnits = {"bytes", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2f %s", bytes, kUnits[unit]);
  return text.data();
}

void print_row(const std::array<std::string, 4>& cells) {
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(), "%-8s  %14s  %12s  %19s\n", cells[0].c_str(),
                cells[1].c_str(), cells[2].c_str(), cells[3].c_str());
  std::cout << line.data();
}

std::vector<std::string> estimate_types() {
  return {"float32", "float16", "int8", "int4"};
}

ExitCode estimate_verb(const std::string& folder, const std::vector<std::string>& types) {
  const HfWeights weights(folder);
  const ModelSizes sizes = model_sizes(weights.tensors());
  std::cout << "memory for '" << folder << "': " << sizes.total
            << " numbers, the largest layer is '" << sizes.largest_layer << "'\n";
  print_row({"dtype", "largest layer", "total size", "training using Adam"});
  for (const std::string& name : types.empty() ? estimate_types() : types) {
    const NumberType& type = number_types().at(name);
    const auto total = static_cast<double>(sizes.total);
    print_row({name, size_cell(static_cast<double>(sizes.largest) * type.stored),
               size_cell(total * type.stored),
               type.trained > 0 ? size_cell(total * type.trained) : "N/A"});
  }
  return ExitCode::kDone;
}

}  // namespace

void add_plan_verb(VerbTable& verbs) {
  const auto to = std::make_shared<PlanArguments>();
  CLI::App& verb = verbs.add("plan", "estimate memory and compute without training",
                             verbs.with_torch([to] { return plan_verb(*to); }));
  verb.add_option("--ranks", to->ranks, "numbers of ranks to plan for, such as 1,2,8");
  add_device_map_flags(verb, to->placement);
  CLI::Option* hardware = verb.add_option(
      "--hardware", to->hardware,
      "compare the meshes of the ranks on other hardware, the fastest first: " +
          joined(hardware_names()) +
          "; with changes, such as '--hardware h100 memory=94e9 ranks_per_machine=4'");
  hardware->expected(1, -1);
  verb.add_option("--top", to->top, "meshes to list with --hardware; default 12")
      ->needs(hardware)
      ->check(CLI::PositiveNumber);
  verb.add_flag("--names", to->names, "only print the names of the metrics that the run logs");
  for (const char* const flag : {"--device-map", "--max-memory"}) {
    for (const char* const other : {"--hardware", "--ranks", "--names"}) {
      verb.get_option(flag)->excludes(verb.get_option(other));
    }
  }
  verbs.add_recipe(verb, to->recipe, "a recipe");
  add_config(verb, to->recipe.config);
}

void add_estimate_verb(VerbTable& verbs) {
  struct EstimateArguments {
    std::string folder;
    std::vector<std::string> types;
  };
  const auto to = std::make_shared<EstimateArguments>();
  CLI::App& verb = verbs.add("estimate-memory", "estimate the memory of a Hugging Face model",
                             [to] { return estimate_verb(to->folder, to->types); });
  verb.add_option("model", to->folder, "a model folder")->required();
  verb.add_option("--dtypes", to->types, "float32, float16, int8, int4; default: all")
      ->check(CLI::IsMember(estimate_types()));
}

}  // namespace accel
