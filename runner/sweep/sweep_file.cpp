#include "runner/sweep/sweep_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/schema.h"
#include "runner/sweep/sweep_checks.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<RandomValue::Kind, const char*> kRandomKinds[] = {
    {RandomValue::Kind::kUniform, "uniform"},
    {RandomValue::Kind::kLogUniform, "log_uniform"},
    {RandomValue::Kind::kInt, "int"},
    {RandomValue::Kind::kChoice, "choice"}};

Rule<std::string> folder_name() {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  // Trials are called after it, and names of runs have at most 64 letters.
  return {[plain](const std::string& name) {
            return name.size() <= 48 && std::all_of(name.begin(), name.end(), plain) &&
                   name != "." && name != "..";
          },
          "at most 48 letters, digits, '.', '_' or '-'", "\"pattern\": \"^[A-Za-z0-9._-]{0,48}$\""};
}

/// The two ends of `[low, high]`; false: reported.
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
    reading.problems.error(node.where,
                           std::string("'") + kind +
                               "' has a low end that is not below "
                               "its high end",
                           "write [low, high]");
    return false;
  }
  if (out.kind == RandomValue::Kind::kLogUniform && out.low <= 0) {
    reading.problems.error((*ends)[0].where, "'log_uniform' must be of numbers above 0",
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

/// Where the file says by what its ranking and its stages go.
std::map<std::string, Span> places_of_metrics(const Node& tree) {
  std::map<std::string, Span> places;
  const auto add = [&](const Node::Entry* section) {
    const Node::Entry* by = section ? section->node.find("by") : nullptr;
    if (by && by->node.scalar()) places.emplace(by->node.scalar()->text, by->node.where);
  };
  add(tree.find("ranking"));
  const Node::Entry* stages = tree.find("stages");
  if (!stages || !stages->node.list()) return places;
  for (const Node& stage : *stages->node.list()) add(stage.find("promote"));
  return places;
}

}  // namespace

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
      .field("trials", &RandomSection::trials, "How many times to draw.",
             between<int64_t>(0, 10'000))
      .field("seed", &RandomSection::seed,
             "Of the draws; more trials of the same seed begin with the same ones.",
             at_least<int64_t>(0))
      .field("values", &RandomSection::values,
             "Recipe keys, each with `{uniform: [low, high]}`, `{log_uniform: [low, high]}`, "
             "`{int: [low, high]}` (both included) or `{choice: [...]}`.");
}

Schema<RankingSection> RankingSection::schema() {
  return Schema<RankingSection>()
      .field("by", &RankingSection::by, "A metric, as the record and trackers name it.")
      .field("mode", &RankingSection::mode, "Whether less or more of it is better.");
}

Schema<PromoteSection> PromoteSection::schema() {
  return Schema<PromoteSection>()
      .field("keep", &PromoteSection::keep, "So many trials go on.", at_least<int64_t>(1))
      .field("by", &PromoteSection::by, "The metric to choose them by; auto: the ranking's.")
      .field("mode", &PromoteSection::mode,
             "Whether less or more of it is better; auto: the ranking's.");
}

Schema<StageSection> StageSection::schema() {
  return Schema<StageSection>()
      .field("until", &StageSection::until,
             "When the stage ends, counted from a trial's start; in steps, but for the last.")
      .required()
      .field("promote", &StageSection::promote,
             "Which trials of the stage before go on; none: all that did not fail.");
}

Schema<SweepOptions> SweepOptions::schema() {
  return Schema<SweepOptions>()
      .field("recipe", &SweepOptions::recipe,
             "The recipe that every trial runs: a path from this file's folder, or builtin:NAME.")
      .required()
      .field("name", &SweepOptions::name,
             "Names the folder runs/<name>, and its trials; default: the file's name.",
             folder_name())
      .field("grid", &SweepOptions::grid,
             "Recipe keys, each with a list of values: every combination is tried.")
      .field("random", &SweepOptions::random, "Values that are drawn.")
      .field("paired", &SweepOptions::paired,
             "Recipe keys, each with a list of values: the first ones of all lists together, then "
             "the second ones, and so on.")
      .field("overrides", &SweepOptions::overrides, "Recipe keys and values for every trial.")
      .field("stages", &SweepOptions::stages,
             "Trials are made in parts, of which later ones are for the best; none: each trial "
             "runs as long as the recipe says.")
      .field("ranking", &SweepOptions::ranking, "What makes one trial better than another.")
      .field("parallel", &SweepOptions::parallel, "Trials that run at once.",
             between<int64_t>(1, 256))
      .check(&check_sweep);
}

std::vector<std::string> metrics_of(const SweepOptions& sweep) {
  std::set<std::string> names = {sweep.ranking.by};
  for (const StageSection& stage : sweep.stages) {
    if (stage.promote && stage.promote->by) names.insert(*stage.promote->by);
  }
  return {names.begin(), names.end()};
}

SweepOptions read_sweep(const std::string& path, std::string text) {
  const Node tree = parse_recipe(path, std::move(text));
  Diagnostics problems;
  const Registry none;
  const std::vector<FieldInfo> sections = SweepOptions::schema().info();
  Reading reading{problems, none, &sections};
  SweepOptions sweep = SweepOptions::schema().read(tree, reading);
  problems.check();
  sweep.metric_places = places_of_metrics(tree);
  sweep.recipe_place = tree.find("recipe")->node.where;
  const std::string stem = fs::path(path).stem().string();
  if (sweep.name.empty()) sweep.name = folder_name().holds(stem) ? stem : "sweep";
  if (!sweep.recipe.starts_with("builtin:")) {
    sweep.recipe = (fs::path(path).parent_path() / sweep.recipe).lexically_normal().string();
  }
  return sweep;
}

}  // namespace accel
