#include "runner/sweep/sweep_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/recipe/deprecated_names.h"
#include "core/recipe/parse.h"
#include "core/recipe/run_name.h"
#include "core/recipe/schema.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<RandomValue::Kind, const char*> kRandomKinds[] = {
    {RandomValue::Kind::kUniform, "uniform"},
    {RandomValue::Kind::kLogUniform, "log_uniform"},
    {RandomValue::Kind::kInt, "int"},
    {RandomValue::Kind::kChoice, "choice"}};

/// Reads `[low, high]`; false: an error was reported.
bool read_range(const Node& node, const char* kind, RandomValue& out, Reading& reading) {
  const Node::List* ends = node.list();
  if (!ends || ends->size() != 2) {
    reading.wrong_type(node, kind, "two numbers, [low, high]");
    return false;
  }
  const bool whole = out.kind == RandomValue::Kind::kInt;
  double* const to[] = {&out.low, &out.high};
  for (size_t i = 0; i < 2; ++i) {
    if (whole) {
      const auto value = Codec<int64_t>::read((*ends)[i], kind, reading);
      if (!value) return false;
      *to[i] = static_cast<double>(*value);
    } else {
      const auto value = Codec<double>::read((*ends)[i], kind, reading);
      if (!value) return false;
      *to[i] = *value;
    }
  }
  if (out.low >= out.high) {
    reading.problems.error(node.where, text("'{}' needs low < high", kind), "write [low, high]");
    return false;
  }
  if (out.kind == RandomValue::Kind::kLogUniform && out.low <= 0) {
    reading.problems.error((*ends)[0].where, "'log_uniform' needs positive numbers",
                           "use 'uniform' for a range that includes 0");
    return false;
  }
  return true;
}

/// The JSON Schema of a section and of those in it.
nlohmann::ordered_json section_json(const std::vector<FieldInfo>& fields) {
  nlohmann::ordered_json out = {{"type", "object"}, {"additionalProperties", false}};
  for (const FieldInfo& field : fields) {
    auto& property = out["properties"][field.name];
    property = field.fields.empty() ? nlohmann::ordered_json::parse("{" + field.json + "}")
                                    : section_json(field.fields);
    property["description"] = field.help;
    if (field.required) out["required"].push_back(field.name);
  }
  return out;
}

/// Positions of the metrics of the ranking and the stages.
std::map<std::string, Span> metric_positions(const Node& tree) {
  std::map<std::string, Span> positions;
  const auto add = [&](const Node::Entry* section) {
    const Node::Entry* metric = section ? section->node.find("metric") : nullptr;
    if (!metric || !metric->node.scalar()) return;
    positions.emplace(metric->node.scalar()->text, metric->node.where);
  };
  add(tree.find("ranking"));
  const Node::Entry* stages = tree.find("stages");
  if (!stages || !stages->node.list()) return positions;
  for (const Node& stage : *stages->node.list()) add(stage.find("promote"));
  return positions;
}

/// Reports repeated keys and keys that trials may not set.
class KeyCheck {
 public:
  KeyCheck(const SweepOptions& sweep, Reading& reading) : sweep_(sweep), reading_(reading) {}

  void add(const Node& node, const char* section) {
    const Node::Entry* entry = node.find(section);
    const bool random = std::string(section) == "random";
    if (random && entry) entry = entry->node.find("values");
    if (!entry || !entry->node.map()) return;
    for (const Node::Entry& option : *entry->node.map()) {
      const auto [first, added] = seen_.emplace(option.key, section);
      if (!added) {
        reading_.problems.error(
            option.where, text("'{}' is in both '{}' and '{}'", option.key, first->second, section),
            "leave one of the two out");
      }
      if (option.key == "name") {
        reading_.problems.error(option.where, "a sweep sets the names of its trials",
                                "leave 'name' out here; their names begin with the sweep's 'name'");
      }
      if (option.key == "train.until" && !sweep_.stages.empty()) {
        reading_.problems.error(option.where, "'train.until' is set by 'stages'",
                                "leave one of the two out");
      }
    }
  }

 private:
  const SweepOptions& sweep_;
  Reading& reading_;
  std::map<std::string, std::string> seen_;
};

/// Whether two values are equal in a recipe, however written: 0.001 and 1e-3.
bool same_value(const Node& a, const Node& b) {
  const Scalar *first = a.scalar(), *second = b.scalar();
  if (first && second && !first->quoted && !second->quoted) {
    char *rest_of_first = nullptr, *rest_of_second = nullptr;
    const double x = std::strtod(first->text.c_str(), &rest_of_first);
    const double y = std::strtod(second->text.c_str(), &rest_of_second);
    const bool numbers = !*rest_of_first && !*rest_of_second;
    if (numbers && !first->text.empty() && !second->text.empty()) return x == y;
  }
  return detail::inline_text(a) == detail::inline_text(b);
}

/// Reports repeated values: equal recipes produce equal runs.
void check_repeats(const SweepOptions& sweep, Reading& reading) {
  for (const auto& [key, values] : sweep.grid) {
    for (auto at = values.begin(); at != values.end(); ++at) {
      const auto is_it = [at](const Node& value) { return same_value(value, *at); };
      if (std::none_of(values.begin(), at, is_it)) continue;
      reading.problems.error(at->where,
                             text("'{}' has the value {} twice", key, detail::inline_text(*at)),
                             "leave one out: equal trials produce equal runs");
    }
  }
}

void check_lists(const SweepOptions& sweep, const Node& node, Reading& reading) {
  const auto check_empty = [&](const char* section, const auto& lists) {
    for (const auto& [key, values] : lists) {
      if (!values.empty()) continue;
      reading.problems.error(node.find(section)->node.find(key)->where,
                             text("'{}' has no values to try", key), "give a list, such as [1, 2]");
    }
  };
  check_empty("grid", sweep.grid);
  check_empty("paired", sweep.paired);
  for (const auto& [key, values] : sweep.paired) {
    const auto& [first, others] = *sweep.paired.begin();
    if (values.size() == others.size()) continue;
    reading.problems.error(
        node.find("paired")->node.find(key)->where,
        text("'{}' has {} values, and '{}' has {}", key, values.size(), first, others.size()),
        "paired lists must have equal lengths");
  }
  if (sweep.random.values.empty() == (sweep.random.trials == 0)) return;
  reading.problems.error(node.find("random")->where,
                         sweep.random.trials == 0 ? "'random' has no number of trials"
                                                  : "'random' has no values to draw",
                         sweep.random.trials == 0 ? "add 'trials: 10'" : "add 'values'");
}

/// Number of trials, as a double to avoid overflow.
double trial_count(const SweepOptions& sweep) {
  double count = 1;
  for (const auto& [key, values] : sweep.grid) count *= static_cast<double>(values.size());
  if (!sweep.paired.empty()) count *= static_cast<double>(sweep.paired.begin()->second.size());
  if (!sweep.random.values.empty()) count *= static_cast<double>(sweep.random.trials);
  return count;
}

/// Reports stages that keep more trials than enter them.
void check_promotions(const SweepOptions& sweep, const Node& node, Reading& reading) {
  const Node::Entry* entry = node.find("stages");
  double entrants = trial_count(sweep);
  if (entrants < 1) return;  // reported
  for (size_t i = 1; i < sweep.stages.size(); ++i) {
    const std::optional<PromoteSection>& promote = sweep.stages[i].promote;
    if (!promote) continue;
    const auto keep = static_cast<double>(promote->keep);
    if (keep > entrants) {
      const Node& section = (*entry->node.list())[i].find("promote")->node;
      const auto count = static_cast<int64_t>(entrants);
      reading.problems.error(section.find("keep")->node.where,
                             text("'keep' is {}, and {} {} this stage", promote->keep, count,
                                  count == 1 ? "trial enters" : "trials enter"),
                             "keep fewer, or leave 'promote' out to keep all");
    }
    entrants = std::min(entrants, keep);
  }
}

void check_stages(const SweepOptions& sweep, const Node& node, Reading& reading) {
  const Node::Entry* entry = node.find("stages");
  double before = 0;
  for (size_t i = 0; i < sweep.stages.size(); ++i) {
    const Node& own = entry->node.list() ? (*entry->node.list())[i] : entry->node;
    const StageSection& stage = sweep.stages[i];
    const bool last = i + 1 == sweep.stages.size();
    const bool steps = stage.until.unit == Duration::Unit::kSteps;
    if (i == 0 && stage.promote) {
      reading.problems.error(own.find("promote")->where, "the first stage has no trials to promote",
                             "'promote' selects from the trials of the previous stage");
    }
    if (!steps && !last) {
      reading.problems.error(
          own.find("until")->node.where,
          text("a stage before the last must end after a number of steps, not '{}'",
               to_string(stage.until)),
          "write '100 steps'");
    } else if (steps && stage.until.value <= before) {
      reading.problems.error(own.find("until")->node.where,
                             "a stage must end later than the previous one");
    }
    if (steps) before = stage.until.value;
  }
}

/// Reports the errors of a sweep beyond the types of its values; `node` is its tree.
void check_sweep(const SweepOptions& sweep, const Node& node, Reading& reading) {
  if (sweep.grid.empty() && sweep.paired.empty() && sweep.random.values.empty() &&
      sweep.random.trials == 0) {
    reading.problems.error(node.where, "there are no values to try",
                           "add 'grid', 'random' or 'paired'");
  }
  KeyCheck keys(sweep, reading);
  for (const char* section : {"grid", "random", "paired", "overrides"}) keys.add(node, section);
  check_lists(sweep, node, reading);
  check_repeats(sweep, reading);
  check_stages(sweep, node, reading);
  check_promotions(sweep, node, reading);
}

}  // namespace

// Names of trials begin with it, and names of runs have at most 64 characters.
constexpr size_t kLongestSweepName = 48;

Rule<std::string> folder_name() {
  return {[](const std::string& name) { return is_plain_name(name, kLongestSweepName); },
          "at most 48 letters, digits, '.', '_' or '-'", "\"pattern\": \"^[A-Za-z0-9._-]{0,48}$\""};
}

std::string Codec<RandomValue>::json() {
  return "\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": 1, "
         "\"additionalProperties\": false, \"properties\": {"
         "\"uniform\": {\"type\": \"array\", \"items\": {\"type\": \"number\"}}, "
         "\"log_uniform\": {\"type\": \"array\", \"items\": {\"type\": \"number\"}}, "
         "\"int\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}}, "
         "\"choice\": {\"type\": \"array\"}}";
}

std::optional<RandomValue> Codec<RandomValue>::read(const Node& node, const std::string& name,
                                                    Reading& reading) {
  RandomValue out;
  out.where = node.where;
  if (node.map() && node.map()->size() == 1) {
    const Node::Entry& entry = node.map()->front();
    for (const auto& [kind, word] : kRandomKinds) {
      if (entry.key != word) continue;
      out.kind = kind;
      if (kind != RandomValue::Kind::kChoice) {
        return read_range(entry.node, word, out, reading) ? std::optional(out) : std::nullopt;
      }
      if (!entry.node.list() || entry.node.list()->empty()) {
        reading.wrong_type(entry.node, word, "a list of values");
        return std::nullopt;
      }
      out.choices = *entry.node.list();
      return out;
    }
  }
  reading.wrong_type(node, name, Codec::name());
  return std::nullopt;
}

Node Codec<RandomValue>::write(const RandomValue& value) {
  Node::List list = value.choices;
  if (value.kind != RandomValue::Kind::kChoice) {
    list = {Codec<double>::write(value.low), Codec<double>::write(value.high)};
  }
  for (const auto& [kind, word] : kRandomKinds) {
    if (kind == value.kind) return {Node::Map{{word, {}, {std::move(list), {}}}}, {}};
  }
  return {};
}

std::string section_keywords(const std::vector<FieldInfo>& fields) {
  const std::string text = section_json(fields).dump();
  return text.substr(1, text.size() - 2);
}

Schema<RandomSection> RandomSection::schema() {
  return Schema<RandomSection>()
      .field("trials", &RandomSection::trials, "Number of random trials.",
             between<int64_t>(0, 10'000))
      .field("seed", &RandomSection::seed,
             "Seed of the random values. More trials of the same seed start with the same ones.",
             at_least<int64_t>(0))
      .field("values", &RandomSection::values,
             "Recipe keys, each with `{uniform: [low, high]}`, `{log_uniform: [low, high]}`, "
             "`{int: [low, high]}` (both included) or `{choice: [...]}`.");
}

Schema<RankingSection> RankingSection::schema() {
  return Schema<RankingSection>()
      .field("metric", &RankingSection::metric, "Metric that ranks the trials, by its logged name.")
      .renamed_from("by")
      .field("mode", &RankingSection::mode, "Whether lower or higher values are better.");
}

Schema<PromoteSection> PromoteSection::schema() {
  return Schema<PromoteSection>()
      .field("keep", &PromoteSection::keep, "Number of trials that enter the stage.",
             at_least<int64_t>(1))
      .field("metric", &PromoteSection::metric, "Metric that selects them; auto: the ranking's.")
      .renamed_from("by")
      .field("mode", &PromoteSection::mode,
             "Whether lower or higher values are better; auto: the ranking's.");
}

Schema<StageSection> StageSection::schema() {
  return Schema<StageSection>()
      .field("until", &StageSection::until,
             "End of the stage, counted from the start of a trial; in steps, except for the last "
             "stage.")
      .required()
      .field("promote", &StageSection::promote,
             "Selection from the trials of the previous stage; none: all that did not fail.");
}

Schema<SweepOptions> SweepOptions::schema() {
  return Schema<SweepOptions>()
      .field("recipe", &SweepOptions::recipe,
             "Recipe of every trial: a path relative to this file, or builtin:NAME.")
      .required()
      .field("name", &SweepOptions::name,
             "Name of the folder runs/<name> and of the trials; default: the file's name.",
             folder_name())
      .field("grid", &SweepOptions::grid,
             "Recipe keys, each with a list of values: every combination is a trial.")
      .field("random", &SweepOptions::random, "Random search: values drawn from distributions.")
      .field("paired", &SweepOptions::paired,
             "Recipe keys, each with a list of values: trial i takes the i-th value of every list.")
      .field("overrides", &SweepOptions::overrides, "Recipe keys and values for every trial.")
      .field(
          "stages", &SweepOptions::stages,
          "Successive halving: later stages continue only the best trials; none: each trial runs "
          "to the end of the recipe.")
      .field("ranking", &SweepOptions::ranking, "Order of the trials.")
      .field("parallel", &SweepOptions::parallel, "Number of trials that run in parallel.",
             between<int64_t>(1, 256));
}

std::vector<std::string> metrics_of(const SweepOptions& sweep) {
  std::set<std::string> names = {sweep.ranking.metric};
  for (const StageSection& stage : sweep.stages) {
    if (stage.promote && stage.promote->metric) names.insert(*stage.promote->metric);
  }
  return {names.begin(), names.end()};
}

SweepOptions read_sweep(const std::string& path, std::string text) {
  Node tree = parse_recipe(path, std::move(text));
  Diagnostics problems;
  const Registry none;
  const std::vector<FieldInfo> sections = SweepOptions::schema().info();
  DeprecatedNames(sections, none).replace(tree, problems);
  Reading reading{problems, none, &sections};
  SweepOptions sweep = SweepOptions::schema().read(tree, reading);
  if (problems.empty()) check_sweep(sweep, tree, reading);
  problems.check();
  sweep.deprecations = problems.warnings();
  sweep.metric_positions = metric_positions(tree);
  sweep.recipe_position = tree.find("recipe")->node.where;
  if (sweep.name.empty()) {
    sweep.name = run_name_of(fs::path(path).stem().string(), kLongestSweepName);
  }
  if (!sweep.recipe.starts_with("builtin:")) {
    sweep.recipe = (fs::path(path).parent_path() / sweep.recipe).lexically_normal().string();
  }
  return sweep;
}

}  // namespace accel
