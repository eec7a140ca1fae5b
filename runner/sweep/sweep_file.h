// A sweep: a recipe and the values to run it with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

/// Which of two values of a metric is the better one.
enum class Better { kMin, kMax };
template <>
struct EnumNames<Better> {
  static constexpr std::pair<Better, const char*> kValues[] = {{Better::kMin, "min"},
                                                               {Better::kMax, "max"}};
};

/// What a value is drawn from: one of `{uniform: [low, high]}`, `{log_uniform: [low, high]}`,
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
  std::string by = "eval/loss";
  Better mode = Better::kMin;
  static Schema<RankingSection> schema();
};

struct PromoteSection {
  int64_t keep = 1;
  Auto<std::string> by;  ///< auto: as the sweep's ranking
  Auto<Better> mode;
  static Schema<PromoteSection> schema();
};

struct StageSection {
  Duration until;
  std::optional<PromoteSection> promote;
  static Schema<StageSection> schema();
};

/// A whole file.
struct SweepOptions {
  std::string recipe;  ///< a path, from the working folder, or builtin:NAME
  Span recipe_place;   ///< where the file names it
  std::string name;
  std::map<std::string, std::vector<Node>> grid;
  RandomSection random;
  std::map<std::string, std::vector<Node>> paired;
  std::map<std::string, Node> overrides;  ///< for all trials
  std::vector<StageSection> stages;       ///< none: one, as long as the recipe says
  RankingSection ranking;
  int64_t parallel = 1;
  /// Where the file names each metric that it goes by; a default has no place.
  std::map<std::string, Span> metric_places;
  static Schema<SweepOptions> schema();
};

/// Metrics that its stages and its ranking go by.
std::vector<std::string> metrics_of(const SweepOptions& sweep);

/// Reads a file; one without a name gets the file's. Throws RecipeError with everything wrong.
SweepOptions read_sweep(const std::string& path, std::string text);

/// The JSON Schema keywords of a section with these keys, and of the sections in it.
std::string section_keywords(const std::vector<FieldInfo>& fields);

/// A section as any, whose JSON Schema also tells what is in it: a list's items do not otherwise.
template <class S>
struct TellingSection {
  static std::string name() { return "a section"; }
  static std::string json() { return section_keywords(S::schema().info()); }
  static std::optional<S> read(const Node& node, const std::string& name, Reading& reading) {
    if (!node.map()) {
      reading.wrong_type(node, name, TellingSection::name());
      return std::nullopt;
    }
    const size_t before = reading.problems.size();
    S out = S::schema().read(node, reading);
    return reading.problems.size() == before ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const S& value) { return S::schema().write(value); }
};

template <>
struct Codec<PromoteSection> : TellingSection<PromoteSection> {};
template <>
struct Codec<StageSection> : TellingSection<StageSection> {};

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

}  // namespace accel
