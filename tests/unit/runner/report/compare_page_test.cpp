#include "runner/report/report.h"

#include <gtest/gtest.h>

#include "tests/unit/runner/report/recorded_run.h"

namespace accel::compare_page_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(ComparePageTest, CurvesResultsAndRecipesAreSideBySide) {
  RecordedRun first("first"), second("second<b>");
  first.record().evaluation(10, std::vector<Measurement>{{"eval/accuracy", 0.5}});
  second.record().evaluation(10, std::vector<Measurement>{{"eval/accuracy", 0.875}});
  second.record().evaluation(20, std::vector<Measurement>{{"eval/accuracy", 0.75}});
  first.train(20);
  second.train(40);
  first.flush();
  second.flush();
  second.write("recipe.yaml", "seed: 43\nmodel:\n  type: mlp\n  dropout: 0.5\n");
  const std::string page = compare_page({read_run(first.dir()), read_run(second.dir())});
  for (const char* part :
       {"<h1>first, second&lt;b&gt;</h1>",
        "<tr><th>steps</th><td data-column=\"first\">20</td>"
        "<td data-column=\"second&lt;b&gt;\">40</td></tr>",
        "<tr><th title=\"eval/accuracy\">Eval accuracy</th><td data-column=\"first\">0.5</td>"
        "<td class=\"best\" data-column=\"second&lt;b&gt;\" title=\"0.75, best 0.875\">"
        "0.75 (best 0.875)</td></tr>",
        "<tr><th title=\"train/loss\">Training loss</th><td data-column=\"first\">0.05</td>"
        "<td class=\"best\" data-column=\"second&lt;b&gt;\">0.025</td></tr>",
        "<th title=\"train/samples_per_second\">Samples per second</th>"
        "<td data-column=\"first\">800</td>",
        "<p class=\"best\">Best by Training loss: second&lt;b&gt;, 0.025 at step 40</p>",
        "<h3>Training loss</h3><span class=\"key c0\"><i></i>first <b>0.05</b></span>"
        "<span class=\"key c1\"><i></i>second&lt;b&gt; <b>0.025</b></span>",
        "<tr><th>seed</th><td data-column=\"first\">42</td>"
        "<td data-column=\"second&lt;b&gt;\">43</td></tr>",
        "<tr><th>model.dropout</th><td data-column=\"first\"></td>"
        "<td data-column=\"second&lt;b&gt;\">0.5</td></tr>"}) {
    EXPECT_TRUE(contains(page, part)) << part;
  }
  EXPECT_FALSE(contains(page, "<th>model.type</th>"));
}

TEST(ComparePageTest, TheBestRunIsThatOfTheMetricOfItsCheckpoints) {
  RecordedRun first("first"), second("second");
  first.record().evaluation(
      10, std::vector<Measurement>{{"eval/loss", 0.5}, {"eval/accuracy", 0.87654321}});
  second.record().evaluation(10,
                             std::vector<Measurement>{{"eval/loss", 0.4}, {"eval/accuracy", 0}});
  first.flush();
  second.flush();
  const auto page = [&] { return compare_page({read_run(first.dir()), read_run(second.dir())}); };
  EXPECT_TRUE(contains(page(), "<p class=\"best\">Best by Eval loss: second, 0.4 at step 10</p>"));
  first.write("recipe.yaml", "checkpoint:\n  keep:\n    metric: eval/accuracy\n");
  EXPECT_TRUE(
      contains(page(), "<p class=\"best\">Best by Eval accuracy: first, 0.8765 at step 10</p>"));
  EXPECT_TRUE(contains(page(), "title=\"0.87654321\">0.8765</td>"));
}

TEST(ComparePageTest, RunsOfOneNameAreToldApartByTheirFolders) {
  RecordedRun first("same"), second("same");
  const std::string page = compare_page({read_run(first.dir()), read_run(second.dir())});
  EXPECT_TRUE(contains(page, "<h1>" + first.dir() + ", " + second.dir() + "</h1>"));
  EXPECT_TRUE(contains(page, "<p>The recipes are the same.</p>"));
}

TEST(ComparePageTest, RecipeThatCannotBeReadIsLeftOut) {
  RecordedRun first("first"), second("second");
  second.write("recipe.yaml", "seed: [\n");
  const std::string page = compare_page({read_run(first.dir()), read_run(second.dir())});
  EXPECT_TRUE(contains(page,
                       "<tr><th>seed</th><td data-column=\"first\">42</td>"
                       "<td data-column=\"second\"></td></tr>"));
}

}  // namespace
}  // namespace accel::compare_page_test
