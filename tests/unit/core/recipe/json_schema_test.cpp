#include "core/recipe/json_schema.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/core/catalog_sample.h"

namespace accel::json_schema_test {
namespace {

using Json = nlohmann::json;

Json sample_schema() {
  return Json::parse(json_schema(SampleRecipe::schema().info(), sample_registry()));
}

TEST(JsonSchemaTest, TopLevelIsClosedButForNotes) {
  const Json schema = sample_schema();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["patternProperties"]["^x-"], true);
  EXPECT_TRUE(schema["properties"].contains("include"));
  EXPECT_EQ(schema["then"]["required"], Json({"tracker", "data"}));
}

TEST(JsonSchemaTest, ListsCanBeAppendedToAndSectionsReplaced) {
  const Json properties = sample_schema()["properties"];
  EXPECT_TRUE(properties.contains("metrics+"));
  EXPECT_TRUE(properties.contains("data!"));
  EXPECT_TRUE(properties.contains("tracker!"));
  EXPECT_FALSE(properties.contains("name+"));
  EXPECT_FALSE(properties.contains("data+"));
}

TEST(JsonSchemaTest, OptionHasHelpDefaultAndRule) {
  const Json kind = sample_schema()["$defs"]["tracker"];
  const Json& choices = kind["else"]["allOf"];
  const Json& printer = choices[1]["then"];
  EXPECT_EQ(choices[1]["if"]["properties"]["type"]["const"], "printer");
  EXPECT_EQ(printer["required"], Json({"path", "type"}));
  const Json& rows = printer["properties"]["rows"];
  EXPECT_EQ(rows["description"], "Lines in a page. Must be at least 1.");
  EXPECT_EQ(rows["default"], 10);
  EXPECT_EQ(rows["then"], Json({{"type", "integer"}, {"minimum", 1}}));
  EXPECT_EQ(printer["properties"]["sizes"]["default"], Json({3, 4}));
}

/// Whether a validator would have to try alternatives: an `anyOf` without one that accepts
/// everything.
bool has_open_alternatives(const Json& json) {
  if (json.is_object() && json.contains("anyOf")) {
    bool open = true;
    for (const Json& choice : json["anyOf"]) open = open && !choice.empty();
    if (open) return true;
  }
  for (const Json& inner : json) {
    if (inner.is_structured() && has_open_alternatives(inner)) return true;
  }
  return false;
}

TEST(JsonSchemaTest, ValuesAreToldApartByConditions) {
  Json schema = sample_schema();
  Json kind = schema["$defs"]["tracker"];
  EXPECT_EQ(kind["if"]["type"], Json({"string", "null"}));
  EXPECT_EQ(kind["then"]["then"], Json({{"enum", {"null"}}}));
  const Json& printer = kind["else"]["allOf"][1]["then"]["properties"];
  EXPECT_EQ(printer["limit"]["if"], Json({{"enum", {"none", nullptr}}}));
  EXPECT_EQ(printer["limit"]["else"]["then"]["type"], "number");
  for (const char* name : {"metrics", "data", "tracker"}) {
    EXPECT_FALSE(has_open_alternatives(schema["properties"][name])) << name;
  }
}

TEST(JsonSchemaTest, EveryReferenceHasADefinition) {
  const Json schema = sample_schema();
  const std::string text = schema.dump();
  const std::string start = "\"$ref\":\"#/$defs/";
  size_t count = 0;
  for (size_t at = 0; (at = text.find(start, at)) != std::string::npos; ++count) {
    at += start.size();
    const std::string name = text.substr(at, text.find('"', at) - at);
    EXPECT_TRUE(schema["$defs"].contains(name)) << name;
  }
  EXPECT_GT(count, 10u);
}

TEST(JsonSchemaTest, DefinitionsThatNothingRefersToAreLeftOut) {
  const Json definitions = sample_schema()["$defs"];
  EXPECT_TRUE(definitions.contains("dataset_with_weight"));
  EXPECT_FALSE(definitions.contains("dataset"));
  EXPECT_FALSE(definitions.contains("model"));
}

TEST(JsonSchemaTest, KeywordsThatAreNoJsonAreABug) {
  FieldInfo field{"width", "a number", "1", "Width.", "", "\"type\": "};
  try {
    json_schema({field}, sample_registry());
    FAIL() << "it was taken";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "the JSON Schema keywords of 'width' are no JSON: \"type\": ");
  }
}

struct Example {
  bool good;
  const char* yaml;
};

constexpr Example kExamples[] = {
    {true, "{tracker: 'null', data: {train: synthetic/rows}, x-note: [1, 2]}"},
    {true,
     "tracker: {type: printer, path: a, rows: 1_000, limit: none, columns: auto}\n"
     "data: {train: [{type: synthetic/rows, weight: 2}, synthetic/rows]}\n"},
    {true,
     "{tracker: {type: printer, path: '${vars.p}', rows: '${vars.n}', sizes: ['${vars.n}']},"
     " data: {train: synthetic/rows}, vars: {n: 3, p: {q: 1}}, name: 2026}"},
    {true, "{include: [base.yaml], metrics+: accuracy, data: {shuffle: false}, until: 3 epochs}"},
    {true, "{include: [base.yaml], tracker: {rows: 3}, ~metrics: ~, data!: {train: []}}"},
    {true, "{tracker: 'null', data: {train: []}, until: [5 steps, 90 min], metrics: ~}"},
    {false, "{tracker: 'null'}"},
    {false, "{tracker: 'null', data: {shuffle: true}}"},
    {false, "{tracker: 'null', data: {train: [], shufle: true}}"},
    {false, "{tracker: 'null', data: {train: []}, lr: 1}"},
    {false, "{tracker: nul, data: {train: []}}"},
    {false, "{tracker: printer, data: {train: []}}"},
    {false, "{tracker: {rows: 3}, data: {train: []}}"},
    {false, "{tracker: {type: printer}, data: {train: []}}"},
    {false, "{tracker: {type: printer, path: a, rows: 0}, data: {train: []}}"},
    {false, "{tracker: {type: printer, path: a, rows: many}, data: {train: []}}"},
    {false, "{tracker: {type: printer, path: a, row: 3}, data: {train: []}}"},
    {false, "{tracker: {type: printer, path: a, style: {color: green}}, data: {train: []}}"},
    {false, "{tracker: 'null', data: {train: {type: synthetic/rows, weight: 0}}}"},
    {false, "{tracker: {type: 'null', weight: 2}, data: {train: []}}"},
    {false, "{tracker: 'null', data: {train: []}, metrics: [{}]}"},
};

TEST(JsonSchemaInteropTest, PythonTakesGoodRecipesAndRefusesBadOnes) {
  const char* python = std::getenv("ACCEL_PYTHON");
  if (!python) GTEST_SKIP() << "ACCEL_PYTHON names no Python that has jsonschema and PyYAML";
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("accel_schema_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "schema.json")
      << json_schema(SampleRecipe::schema().info(), sample_registry());
  std::string command = std::string(python) + ' ' + std::getenv("ACCEL_SOURCE_DIR") +
                        "/tests/interop/check_schema.py " + (folder / "schema.json").string();
  int number = 0;
  for (const Example& example : kExamples) {
    const fs::path file =
        folder / (std::to_string(number++) + (example.good ? ".good" : ".bad") + ".yaml");
    std::ofstream(file) << example.yaml;
    command += ' ' + file.string();
  }
  EXPECT_EQ(std::system(command.c_str()), 0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace accel::json_schema_test
