#include "runner/report/run_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/report/recorded_run.h"

namespace accel {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(RunPageTest, TellsEverythingThatTheFolderKnows) {
  RecordedRun run;
  run.record().event(0, "start", "at step 0");
  run.record().plan(0, std::vector<Measurement>{{"total_steps", 120}});
  run.record().about(0, {{"device", "cpu, 2 threads"}});
  run.train(60);
  run.record().evaluation(60,
                          std::vector<Measurement>{{"eval/accuracy", 0.75}, {"eval/loss", 0.5}});
  run.record().event(60, "resume", "from checkpoint_60");
  run.record().event(60, "changed", "optimizer.lr was 0.1, is 0.2");
  run.train(120);
  run.record().event(120, "save", "checkpoint_120");
  run.record().event(120, "end", "");
  run.flush();
  run.write("samples/0.png", "\x89PNG and so on");
  const std::string page = run_page(read_run(run.dir()));
  for (const char* part :
       {"<h1>digits</h1><span class=\"badge finished\">finished</span>", "<small>of 120</small>",
        "<h3>Loss</h3>", "<h3>eval/accuracy</h3>", "<h3>Learning rate</h3>",
        "<h3>Gradient norm</h3>", "<h3>train/samples_per_second</h3>", "<h3>Memory, MiB</h3>",
        "<h2>Time</h2>", "forward 75 % <b>9 s</b>", "optimizer.lr was 0.1, is 0.2",
        "checkpoint_120, the last of 1", "<tr><th>device</th><td>cpu, 2 threads</td></tr>",
        "seed: 42<i>  # default</i>", "resume at step 60",
        "src=\"data:image/png;base64,iVBORyBhbmQgc28gb24=\""}) {
    EXPECT_TRUE(holds(page, part)) << part;
  }
  for (const char* part : {"http:", "https:", "<script", "<link", "@import", "url("}) {
    EXPECT_FALSE(holds(page, part)) << part;
  }
  EXPECT_FALSE(holds(page, "class=\"trouble\""));
}

TEST(RunPageTest, TroubleIsAtTheTop) {
  RecordedRun run;
  run.record().event(0, "start", "");
  run.record().step({.step = 1, .loss = 1});
  run.record().step({.step = 2, .loss = NAN, .skipped = true});
  run.flush();
  std::string page = run_page(read_run(run.dir()));
  EXPECT_TRUE(holds(page,
                    "<li>ended without a word after step 2, as a killed process or a machine "
                    "that went down does</li>"));
  EXPECT_TRUE(holds(page,
                    "<li>1 steps updated nothing, as a value was not finite; the first was "
                    "step 2</li>"));
  EXPECT_TRUE(holds(page, "<li>the loss of 1 steps was not finite; the first was step 2</li>"));
  run.record().event(0, "failed", "the disk is full");
  run.flush();
  page = run_page(read_run(run.dir()));
  EXPECT_TRUE(holds(page, "<li>failed: the disk is full</li>"));
}

TEST(RunPageTest, RunWithoutStepsHasAPage) {
  const TempFolder folder;
  folder.write("recipe.yaml", "seed: 1\n");
  const std::string page = run_page(read_run(folder.path()));
  EXPECT_TRUE(holds(page, "<pre>seed: 1\n</pre>"));
}

TEST(RunPageTest, NothingFromTheFolderBecomesMarkup) {
  RecordedRun run("<b>name");
  run.record().event(0, "<b>event", "<b>text");
  run.record().about(0, {{"<b>about", "<b>value"}});
  run.record().log(1, std::vector<Measurement>{{"<b>metric", 1}, {"<b>eval", 2}});
  run.record().evaluation(1, std::vector<Measurement>{{"eval/<b>", 1}});
  run.record().use(1, std::vector<Measurement>{{"time/<b>phase", 1}});
  run.flush();
  run.write("recipe.yaml", "name: <b>recipe  # <b>origin\n");
  run.write("samples/0.png", "<b>no picture");
  const std::string page = run_page(read_run(run.dir()));
  for (const char* text : {"name", "event", "text", "about", "value", "metric", "phase", "recipe",
                           "origin", "no picture"}) {
    EXPECT_FALSE(holds(page, std::string("<b>") + text)) << text;
  }
  EXPECT_TRUE(holds(page, "&lt;b&gt;metric"));
}

TEST(RunPageTest, HundredThousandStepsAreUnderAMegabyte) {
  RecordedRun run;
  run.record().event(0, "start", "");
  for (int64_t step = 1; step <= 100000; ++step) {
    const double noise = std::fabs(std::sin(static_cast<double>(step) * 12.9898)) + 0.1;
    run.record().step({.step = step, .loss = noise, .grad_norm = noise * 3, .lr = 1e-3 * noise});
    std::vector<Measurement> values;
    for (int i = 0; i < 12; ++i) values.emplace_back("system/" + std::to_string(i), noise * i);
    run.record().log(step, values);
  }
  run.flush();
  const std::string page = run_page(read_run(run.dir()));
  EXPECT_LT(page.size(), 1000000u);
  EXPECT_GT(page.size(), 100000u);
}

}  // namespace
}  // namespace accel
