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
       {"<h1>first, second&lt;b&gt;</h1>", "<tr><th>steps</th><td>20</td><td>40</td></tr>",
        "<tr><th>eval/accuracy</th><td>0.5</td><td class=\"best\">0.75 (best 0.875)</td></tr>",
        "<tr><th>Training loss</th><td>0.05</td><td class=\"best\">0.025</td></tr>",
        "<tr><th>Samples per second</th><td>800</td><td>800</td></tr>",
        "<h3>Training loss</h3><span class=\"key c0\"><i></i>first <b>0.05</b></span>"
        "<span class=\"key c1\"><i></i>second&lt;b&gt; <b>0.025</b></span>",
        "<tr><th>seed</th><td>42</td><td>43</td></tr>",
        "<tr><th>model.dropout</th><td></td><td>0.5</td></tr>"}) {
    EXPECT_TRUE(contains(page, part)) << part;
  }
  EXPECT_FALSE(contains(page, "<th>model.type</th>"));
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
  EXPECT_TRUE(contains(page, "<tr><th>seed</th><td>42</td><td></td></tr>"));
}

}  // namespace
}  // namespace accel::compare_page_test
