#include "runner/report/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/runner/report/recorded_run.h"

namespace accel::run_page_test {
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
        "<span title=\"eval/loss\">Eval loss</span><b>0.5</b>", "<h3>Loss</h3>",
        "<h3>Eval accuracy</h3>", "<h3>Learning rate</h3>", "<h3>Gradient norm</h3>",
        "<h3>Samples per second</h3>", "<h3>Memory, MiB</h3>", "<h2>Time</h2>",
        "forward 75 % <b>9 s</b>", "optimizer.lr was 0.1, is 0.2", "checkpoint_120, the last of 1",
        "<tr><th>device</th><td>cpu, 2 threads</td></tr>", "seed: 42<i>  # default</i>",
        "resume at step 60", "<small>best 0.75 at step 60</small>",
        "<small>best 0.5 at step 60</small>",
        "src=\"data:image/png;base64,iVBORyBhbmQgc28gb24=\""}) {
    EXPECT_TRUE(holds(page, part)) << part;
  }
  for (const char* part : {"http:", "https:", "<script", "<link", "@import", "url("}) {
    EXPECT_FALSE(holds(page, part)) << part;
  }
  EXPECT_FALSE(holds(page, "class=\"trouble\""));
}

TEST(RunPageTest, TheLastSaveIsInTheOrderOfEvents) {
  RecordedRun run;
  run.record().event(0, "start", "at step 0");
  run.record().event(10, "save", "checkpoint_10 in 5 ms");
  run.record().event(20, "save", "checkpoint_20 in 5 ms");
  run.record().event(20, "end", "");
  run.flush();
  const std::string page = run_page(read_run(run.dir()));
  const size_t start = page.find("at step 0"),
               save = page.find("checkpoint_20 in 5 ms, the last of 2"),
               end = page.find("<td class=\"event\">end</td>");
  ASSERT_NE(save, page.npos);
  EXPECT_LT(start, save);
  EXPECT_LT(save, end);
  EXPECT_FALSE(holds(page, "checkpoint_10"));
}

TEST(RunPageTest, EventsLeftOutDoNotMoveTheLastSave) {
  RecordedRun run;
  run.record().event(0, "start", "");
  for (int64_t step = 1; step <= 150; ++step) run.record().event(step, "ctl", "before");
  run.record().event(150, "save", "checkpoint_150");
  for (int64_t step = 151; step <= 300; ++step) run.record().event(step, "ctl", "after");
  run.flush();
  const std::string page = run_page(read_run(run.dir()));
  const size_t save = page.find("checkpoint_150, the last of 1");
  ASSERT_NE(save, page.npos);
  EXPECT_LT(page.rfind("before"), save);
  EXPECT_LT(save, page.find("after</td>"));
}

TEST(RunPageTest, TimesAreWithoutLettersBetween) {
  const TempFolder folder;
  folder.write("recipe.yaml", "seed: 1\n");
  folder.write("metrics.jsonl",
               "{\"step\":0,\"event\":\"start\",\"text\":\"\",\"time\":\"2026-01-31T11:00:00Z\"}\n"
               "{\"step\":0,\"event\":\"end\",\"text\":\"\",\"time\":\"2026-01-31T12:30:00Z\"}\n");
  const std::string page = run_page(read_run(folder.path()));
  EXPECT_TRUE(holds(page, " · 2026-01-31 11:00:00 to 2026-01-31 12:30:00 UTC</p>"));
  EXPECT_TRUE(holds(page, "<th>time, UTC</th>"));
  EXPECT_TRUE(
      holds(page, "<td class=\"time\" title=\"2026-01-31T12:30:00Z\">2026-01-31 12:30:00</td>"));
}

TEST(RunPageTest, TroubleIsAtTheTop) {
  RecordedRun run;
  run.record().event(0, "start", "");
  run.record().step({.step = 1, .loss = 1});
  run.record().step({.step = 2, .loss = NAN, .skipped = true});
  run.flush();
  std::string page = run_page(read_run(run.dir()));
  EXPECT_TRUE(holds(
      page,
      "<li>ended without a final record after step 2, as after a kill or a machine failure</li>"));
  EXPECT_TRUE(holds(
      page, "<li>1 steps were skipped because of non-finite values; the first was step 2</li>"));
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
}  // namespace accel::run_page_test
