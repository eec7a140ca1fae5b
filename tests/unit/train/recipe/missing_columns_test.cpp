// Columns that a recipe names and its tables lack.
#include "train/recipe/missing_columns.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/read_text.h"

namespace accel::missing_columns_test {
namespace {

class MissingColumnsTest : public testing::Test {
 protected:
  MissingColumnsTest() { folder_.write("t.csv", "age,plan,day,y\n1,a,2024-01-01,0\n"); }

  std::string reported(const std::string& data) {
    const Registry registry = all_components();
    Diagnostics problems;
    Reading reading{problems, registry};
    report_missing_columns(parse_recipe("r.yaml", "model: mlp\ndata:\n" + data), reading);
    std::string out;
    for (const Diagnostic& each : problems.list()) out += render(each);
    for (size_t at; (at = out.find(folder_.path())) != out.npos;) {
      out.erase(at, folder_.path().size() + 1);
    }
    return out;
  }

  std::string table(const std::string& options) {
    return "{type: csv, path: " + folder_.path("t.csv") + ", target: y" + options + "}\n";
  }

  TempFolder folder_;
};

TEST_F(MissingColumnsTest, ColumnsThatExistAreNotReported) {
  EXPECT_EQ(reported("  train: " + table(", features: [age, 1], one_hot: {plan: []}, limit: 1") +
                     "  split: {eval: 1, group: age}\n"),
            "");
  EXPECT_EQ(reported("  train: synthetic/glyphs\n"), "");
  EXPECT_EQ(reported("  train: {type: csv, path: gone.csv, target: x}\n"), "");
}

TEST_F(MissingColumnsTest, EachIsReportedAtItsPlace) {
  const std::string all = reported(
      "  train:\n    - " + table("") + "    - type: csv\n      path: " + folder_.path("t.csv") +
      "\n      target: z\n      features: [age, pln]\n      one_hot: {plam: []}\n"
      "      booleans: [bo]\n      dates: {dai: [year]}\n      fill: {ag: mean}\n"
      "  split: {eval: 1, group: usr}\n");
  EXPECT_NE(all.find("r.yaml:7:15: error: 'target' names the column 'z', which 't.csv' lacks\n"
                     "          target: z\n"
                     "                  ^\n"
                     "  hint: it has the columns 'age', 'plan', 'day', 'y'\n"),
            std::string::npos)
      << all;
  for (const char* line :
       {"r.yaml:8:23: error: 'features' names the column 'pln', which 't.csv' lacks\n",
        "r.yaml:9:17: error: 'one_hot' names the column 'plam', which 't.csv' lacks\n",
        "r.yaml:10:18: error: 'booleans' names the column 'bo', which 't.csv' lacks\n",
        "r.yaml:11:15: error: 'dates' names the column 'dai', which 't.csv' lacks\n",
        "r.yaml:12:14: error: 'fill' names the column 'ag', which 't.csv' lacks\n",
        "r.yaml:13:27: error: 'group' names the column 'usr', which 't.csv' lacks\n"}) {
    EXPECT_NE(all.find(line), std::string::npos) << line << all;
  }
}

TEST_F(MissingColumnsTest, ADelimiterThatTheRecipeMustNameIsReported) {
  folder_.write("t.csv", "age;y\n1;0\n2;1\n");
  EXPECT_NE(reported("  train: " + table(""))
                .find("error: 't.csv' is not delimited by ',': its first lines have 2 fields each "
                      "with ';'\n"),
            std::string::npos);
  EXPECT_EQ(reported("  train: " + table(", delimiter: ';'")), "");
}

TEST_F(MissingColumnsTest, FieldsOfTheFirstLineAreLookedFor) {
  folder_.write("t.jsonl", "{\"text\": \"good\", \"stars\": 3}\n{\"text\": \"bad\"}\n");
  const auto lines = [&](const std::string& options) {
    return reported("  train: {type: jsonl, path: " + folder_.path("t.jsonl") + options + "}\n");
  };
  EXPECT_EQ(lines(", text: text, target: stars"), "");
  EXPECT_EQ(lines(", target: star"),
            "r.yaml:3:" + std::to_string(48 + folder_.path().size()) +
                ": error: t.jsonl:1 has no field 'star'\n"
                "      train: {type: jsonl, path: t.jsonl, target: star}\n" +
                std::string(51 + folder_.path().size(), ' ') +
                "^\n  hint: it has the fields 'stars', 'text'\n");
  EXPECT_EQ(lines(", target: star, on_bad_sample: skip(1)"), "");
}

}  // namespace
}  // namespace accel::missing_columns_test
