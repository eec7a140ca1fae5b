#include "runner/report/run_page.h"

#include <set>
#include <vector>

#include "runner/report/chart.h"
#include "runner/report/html.h"
#include "runner/report/page_style.h"
#include "runner/report/plan_table.h"
#include "runner/report/profile_section.h"
#include "runner/report/run_tables.h"

namespace accel {
namespace {

std::vector<ChartMark> marks_of(const RunSummary& run) {
  std::vector<ChartMark> marks;
  for (const RunEvent& event : run.events) {
    const bool bad = event.name == "failed";
    if (bad || event.name == "resume" || event.name == "interrupted") {
      marks.push_back({event.step, event.name + " at step " + std::to_string(event.step), bad});
    }
  }
  return marks;
}

/// Charts of a run, each value in one of them.
class RunCharts {
 public:
  explicit RunCharts(const RunSummary& run) : run_(run), marks_(marks_of(run)) {}

  void add_loss() {
    Chart chart{.title = "Loss", .lines = {}, .marks = marks_, .may_be_logarithmic = true};
    const Curve* means = take("train/loss");
    // One value per step is its own mean.
    const bool both = means && means->pieces().size() < run_.loss.pieces().size();
    chart.lines.push_back({"each step", &run_.loss, 0, both, false});
    if (both) chart.lines.push_back({"mean of a log interval", means, 0, false, false});
    if (const Curve* eval = take("eval/loss")) {
      chart.lines.push_back({"eval/loss", eval, 1, false, true});
    }
    draw(chart);
  }

  void add(const std::string& title, const Curve& curve, bool may_be_logarithmic) {
    draw({title, {{"", &curve, 0, false, false}}, marks_, may_be_logarithmic});
  }

  /// Curves whose name begins with `start`, each in a chart of its own.
  void add_all(const std::string& start, int color) {
    for (const auto& [name, curve] : run_.logged) {
      if (!name.starts_with(start) || !taken_.insert(name).second) continue;
      draw({name, {{"", &curve, color, false, start == "eval/"}}, marks_, false});
    }
  }

  /// Leaves a value out whose curve is drawn from better sources.
  const Curve* take(const std::string& name) {
    taken_.insert(name);
    return run_.curve(name);
  }

  std::string html() const {
    return charts_.empty() ? "" : "<section class=\"charts\">\n" + charts_ + "</section>\n";
  }

 private:
  void draw(const Chart& chart) { charts_ += chart_figure(chart); }

  const RunSummary& run_;
  std::vector<ChartMark> marks_;
  std::set<std::string> taken_;
  std::string charts_;
};

std::string charts_of(const RunSummary& run) {
  RunCharts charts(run);
  charts.add_loss();
  charts.add_all("eval/", 1);
  charts.add("Learning rate", run.lr, false);
  charts.add("Gradient norm", run.grad_norm, true);
  for (const char* name : {"train/lr", "train/grad_norm", "train/epoch", "system/memory_mib"})
    charts.take(name);
  charts.add_all("train/", 2);
  if (const Curve* memory = charts.take("memory_mib")) charts.add("Memory, MiB", *memory, false);
  charts.add_all("", 5);
  return charts.html();
}

}  // namespace

std::string run_page(const RunSummary& run) {
  const std::string standing = standing_words(run.standing());
  std::string body = "<header><h1>" + html_text(run.name) + "</h1><span class=\"badge " + standing +
                     "\">" + standing + "</span><p>" + html_text(run.folder);
  if (!run.events.empty() && !run.events.front().time.empty()) {
    body += html_text(" · " + run.events.front().time + " to " + run.events.back().time);
  }
  body += "</p></header>\n";
  body += headline_cards(run) + trouble(run) + charts_of(run) + time_split(run) + plan_table(run);
  body += profile_section(run.folder);
  body += sample_images(run.folder) + event_table(run) + about_table(run);
  body += recipe_text(run.folder);
  return html_page(run.name + " · accel-run", body);
}

}  // namespace accel
