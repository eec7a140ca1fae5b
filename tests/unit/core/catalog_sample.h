// A small catalogue for tests of what is written from declarations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/recipe/registry.h"
#include "core/recipe/wrapped.h"

namespace accel {

struct SampleStyle {
  std::string color = "blue";
  double width = 1.5;
  static Schema<SampleStyle> schema() {
    return Schema<SampleStyle>()
        .field("color", &SampleStyle::color, "Of the line.", one_of<std::string>({"blue", "red"}))
        .field("width", &SampleStyle::width, "In points.", more_than(0.0));
  }
};

struct SampleOptions {
  FilePath path;
  int64_t rows = 10;
  std::optional<double> limit;
  Auto<int64_t> columns;
  std::vector<int64_t> sizes = {3, 4};
  SampleStyle style;
  static Schema<SampleOptions> schema() {
    return Schema<SampleOptions>()
        .field("path", &SampleOptions::path, "Where to write, below runs/<name>.")
        .required()
        .field("rows", &SampleOptions::rows, "Lines in a page.", at_least<int64_t>(1))
        .on_resume(Change::kFree)
        .field("limit", &SampleOptions::limit, "Stop at a*b of `a|b`.")
        .field("columns", &SampleOptions::columns, "Columns in a page.")
        .on_resume(Change::kImpossible)
        .field("sizes", &SampleOptions::sizes, "Sizes of pages.")
        .field("style", &SampleOptions::style, "How it looks.");
  }
};

struct SamplePart {
  double weight = 1;
  static Schema<SamplePart> schema() {
    return Schema<SamplePart>().field("weight", &SamplePart::weight, "Its share.", more_than(0.0));
  }
};

struct SampleData {
  std::vector<Wrapped<Dataset, SamplePart>> train;
  bool shuffle = true;
  static Schema<SampleData> schema() {
    return Schema<SampleData>()
        .field("train", &SampleData::train, "What to train on.")
        .required()
        .field("shuffle", &SampleData::shuffle, "A new order each epoch.");
  }
};

struct SampleRecipe {
  std::string name;
  Ref<Tracker> tracker;
  SampleData data;
  std::vector<Ref<Metric>> metrics;
  Durations until = {{5, Duration::Unit::kSteps}};
  std::map<std::string, Node> vars;
  static Schema<SampleRecipe> schema() {
    return Schema<SampleRecipe>()
        .field("name", &SampleRecipe::name, "Names the run.")
        .field("tracker", &SampleRecipe::tracker, "Where numbers go.")
        .required()
        .field("data", &SampleRecipe::data, "What to learn from.")
        .required()
        .field("metrics", &SampleRecipe::metrics, "What to measure.")
        .field("until", &SampleRecipe::until, "When to stop.")
        .field("vars", &SampleRecipe::vars, "Values to use elsewhere.");
  }
};

/// Two trackers, a dataset and a metric; none of them can be built.
inline Registry sample_registry() {
  Registry registry;
  registry.of<Tracker>().add(
      {"printer", "Prints pages of numbers.", SampleOptions::schema().info()}, {});
  registry.of<Tracker>().add({"null", "Forgets everything.", {}}, {});
  registry.of<Dataset>().add({"synthetic/rows", "Rows of numbers.", {}}, {});
  registry.of<Metric>().add({"accuracy", "Share of right answers.", {}}, {});
  return registry;
}

}  // namespace accel
