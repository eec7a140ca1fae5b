// Sweep files: a recipe and the values to run it with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/diagnostic.h"
#include "core/recipe/registry.h"

namespace accel {

/// Whether lower or higher values of a metric are better.
enum class Better { kMin, kMax };
template <>
struct EnumNames<Better> {
  static constexpr std::pair<Better, const char*> kValues[] = {{Better::kMin, "min"},
                                                               {Better::kMax, "max"}};
};

/// A distribution: one of `{uniform: [low, high]}`, `{log_uniform: [low, high]}`,
/// `{int: [low, high]}`, both included, and `{choice: [...]}`.
struct RandomValue {
  enum class Kind { kUniform, kLogUniform, kInt, kChoice };
  Kind kind = Kind::kUniform;
  double low = 0, high = 0;
  std::vector<Node> choices;
  Span where;
};

struct RandomSection {
  int64_t trials = 0;
  int64_t seed = 0;
  std::map<std::string, RandomValue> values;
  static Schema<RandomSection> schema();
};

struct RankingSection {
  std::string metric = "eval/loss";
  Better mode = Better::kMin;
  static Schema<RankingSection> schema();
};

struct PromoteSection {
  int64_t keep = 1;
  Auto<std::string> metric;  ///< auto: the sweep's ranking
  Auto<Better> mode;
  static Schema<PromoteSection> schema();
};

struct StageSection {
  Duration until;
  std::optional<PromoteSection> promote;
  static Schema<StageSection> schema();
};

/// A sweep file.
struct SweepOptions {
  std::string recipe;    ///< a path from the working folder, or builtin:NAME
  Span recipe_position;  ///< its position in the file
  std::string name;
  std::map<std::string, std::vector<Node>> grid;
  RandomSection random;
  std::map<std::string, std::vector<Node>> paired;
  std::map<std::string, Node> overrides;  ///< for all trials
  std::vector<StageSection> stages;       ///< none: one stage of the recipe's length
  RankingSection ranking;
  int64_t parallel = 1;
  /// Position of each metric named in the file.
  std::map<std::string, Span> metric_positions;
  std::vector<Diagnostic> deprecations;  ///< warnings about old names of keys
  static Schema<SweepOptions> schema();
};

/// The rule for SweepOptions::name.
Rule<std::string> folder_name();

/// Metrics of the stages and the ranking.
std::vector<std::string> metrics_of(const SweepOptions& sweep);

/// The JSON Schema keywords of a section and its nested sections.
std::string section_keywords(const std::vector<FieldInfo>& fields);

/// Codec of a section with a complete JSON Schema, for sections in lists.
template <class S>
struct SectionCodec {
  static std::string name() { return "a section"; }
  static std::string json() { return section_keywords(S::schema().info()); }
  static std::optional<S> read(const Node& node, const std::string& name, Reading& reading) {
    if (!node.map()) {
      reading.wrong_type(node, name, SectionCodec::name());
      return std::nullopt;
    }
    const size_t before = reading.problems.size();
    S out = S::schema().read(node, reading);
    return reading.problems.size() == before ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const S& value) { return S::schema().write(value); }
};

template <>
struct Codec<PromoteSection> : SectionCodec<PromoteSection> {};
template <>
struct Codec<StageSection> : SectionCodec<StageSection> {};

template <>
struct Codec<RandomValue> {
  static std::string name() {
    return "'uniform: [low, high]', 'log_uniform: [low, high]', 'int: [low, high]' or 'choice: "
           "[...]'";
  }
  static std::string json();
  static std::optional<RandomValue> read(const Node& node, const std::string& name,
                                         Reading& reading);
  static Node write(const RandomValue& value);
};

/// Reads a sweep; its default name is the file's. Throws RecipeError with all errors.
SweepOptions read_sweep(const std::string& path, std::string text);

}  // namespace accel
