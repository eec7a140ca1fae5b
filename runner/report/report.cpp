#include "runner/report/report.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/metric_names.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"
#include "core/recipe/diagnostic.h"
#include "core/recipe/flat_values.h"
#include "formats/records/csv.h"
#include "runner/report/chart.h"
#include "runner/report/html.h"
#include "runner/report/run_tables.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

using Fields = std::vector<std::string_view>;

constexpr const char* kTable = "rank_0_operators.csv";

double number_in(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Calls `take` with each record after the header. Ignores a missing file and other tables.
void each_record(const fs::path& path, size_t columns,
                 const std::function<void(const Fields&)>& take) try {
  std::error_code unknown;
  constexpr std::uintmax_t kMost = 64 << 20;
  if (!fs::is_regular_file(path, unknown) || fs::file_size(path, unknown) > kMost) return;
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  CsvReader reader(std::as_bytes(std::span(text)), {}, path.string());
  Fields fields;
  if (!reader.next(fields) || fields.size() != columns) return;
  while (reader.next(fields)) take(fields);
} catch (const Error&) {
  return;  // unreadable profiles are left out
}

std::string operator_table(const fs::path& path) {
  constexpr int kMost = 25;
  constexpr size_t kColumns = 6;
  double all = 0;
  int count = 0;
  std::vector<HtmlRow> rows;
  each_record(path, kColumns, [&](const Fields& record) { all += number_in(record[4]); });
  each_record(path, kColumns, [&](const Fields& record) {
    if (++count > kMost) return;
    const auto text = [&](size_t column) { return TableCell{std::string(record[column])}; };
    const double own = number_in(record[4]);
    rows.push_back({{readable_operator(text(0).text), text(0).text},
                    text(1),
                    text(2),
                    text(3),
                    number_cell(own),
                    all > 0 ? number_cell(100 * own / all, 3) : TableCell(),
                    number_cell(number_in(record[5]))});
  });
  return html_table(
      {{"operator"}, {"device"}, {"shapes"}, {"calls"}, {"self, ms"}, {"self, %"}, {"total, ms"}},
      rows);
}

std::string memory_chart(const fs::path& path) {
  constexpr size_t kColumns = 3;
  constexpr double kMebibyte = 1 << 20;
  std::map<std::string, Curve> curves;
  each_record(path, kColumns, [&](const Fields& record) {
    constexpr size_t kMostDevices = 8;
    const std::string device(record[1]);
    if (curves.size() >= kMostDevices && !curves.contains(device)) return;
    curves[device].add(static_cast<int64_t>(number_in(record[0])),
                       number_in(record[2]) / kMebibyte);
  });
  Chart chart{.title = "MiB since the profile's start", .lines = {}, .along = "\u00b5s"};
  for (const auto& [device, curve] : curves) {
    const auto color = static_cast<int>(chart.lines.size());
    chart.lines.push_back({device, &curve, color, false, false});
  }
  return has_values(chart) ? "<div class=\"charts\">" + chart_figure(chart) + "</div>" : "";
}

/// Folders of profiles with a table of rank 0, latest first.
std::vector<fs::path> profiles_in(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const auto written = fs::last_write_time(entry.path() / kTable, none);
    if (!none) found.emplace_back(written, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> windows;
  for (auto& [written, path] : found) windows.push_back(std::move(path));
  return windows;
}

/// "steps 5 to 8" of the folder "steps_5_to_8".
std::string words_of(const fs::path& window) {
  std::string words = window.filename().string();
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

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

BestValue best_value(const std::string& metric) {
  return lower_is_better(metric) ? BestValue::kLowest : BestValue::kHighest;
}

/// Charts of a run; each metric is in one of them.
class RunCharts {
 public:
  explicit RunCharts(const RunSummary& run) : run_(run), marks_(marks_of(run)) {}

  void add_loss() {
    Chart chart{.title = "Loss", .lines = {}, .marks = marks_, .may_be_logarithmic = true};
    const Curve* means = take("train/loss");
    // With one value per step, values equal means.
    const bool both = means && means->pieces().size() < run_.loss.pieces().size();
    chart.lines.push_back({"each step", &run_.loss, 0, both, false});
    if (both) chart.lines.push_back({"mean of a log interval", means, 0, false, false});
    if (const Curve* eval = take("eval/loss")) {
      chart.lines.push_back({metric_title("eval/loss"), eval, 1, false, true, BestValue::kLowest});
    }
    draw(chart);
  }

  void add(const std::string& title, const Curve& curve, bool may_be_logarithmic) {
    draw({title, {{"", &curve, 0, false, false}}, marks_, may_be_logarithmic});
  }

  /// One chart per curve whose name begins with `start`.
  void add_all(const std::string& start, int color) {
    for (const auto& [name, curve] : run_.logged) {
      if (!name.starts_with(start) || !taken_.insert(name).second) continue;
      const bool results = start == "eval/";
      draw({metric_title(name),
            {{"", &curve, color, false, results, results ? best_value(name) : BestValue::kNone}},
            marks_,
            false});
    }
  }

  /// Excludes a metric that another curve already shows.
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
  charts.add(metric_title("train/lr"), run.lr, false);
  charts.add(metric_title("train/grad_norm"), run.grad_norm, true);
  for (const char* name : {"train/lr", "train/grad_norm", "train/epoch", "system/memory_mib"})
    charts.take(name);
  charts.add_all("train/", 2);
  if (const Curve* memory = charts.take("memory_mib")) {
    charts.add(metric_title("memory_mib"), *memory, false);
  }
  charts.add_all("", 5);
  return charts.html();
}

using Values = std::map<std::string, std::string>;
using CurveOf = std::function<const Curve*(const RunSummary&)>;

/// Labels of the runs: the folder's name, or the path if names repeat.
std::vector<std::string> labels_of(const std::vector<RunSummary>& runs) {
  std::vector<std::string> labels;
  for (const RunSummary& run : runs) {
    const auto same = std::count_if(
        runs.begin(), runs.end(), [&](const RunSummary& other) { return other.name == run.name; });
    labels.push_back(same > 1 ? run.folder : run.name);
  }
  return labels;
}

std::string compared(const std::string& name, const std::vector<RunSummary>& runs,
                     const CurveOf& curve_of) {
  const std::vector<std::string> labels = labels_of(runs);
  Chart chart{.title = metric_title(name), .lines = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const Curve* curve = curve_of(runs[i]);
    if (curve) chart.lines.push_back({labels[i], curve, static_cast<int>(i), false, false});
  }
  chart.may_be_logarithmic = name.find("loss") != name.npos || name == "train/grad_norm";
  return chart_figure(chart);
}

std::set<std::string> names_of(const std::vector<RunSummary>& runs) {
  std::set<std::string> names;
  for (const RunSummary& run : runs) {
    for (const auto& [name, curve] : run.logged) names.insert(name);
  }
  return names;
}

std::string charts_of(const std::vector<RunSummary>& runs) {
  std::string out = compared("train/loss", runs, [](const RunSummary& run) {
    const Curve* means = run.curve("train/loss");  // the values of single steps are too noisy
    return means ? means : &run.loss;
  });
  for (const std::string& name : names_of(runs)) {
    if (name == "train/loss" || name == "train/epoch") continue;
    out += compared(name, runs, [&](const RunSummary& run) { return run.curve(name); });
  }
  return "<section class=\"charts\">\n" + out + "</section>\n";
}

/// The lowest or highest value, whichever is better.
double best_in(const std::string& metric, const Curve& curve) {
  return lower_is_better(metric) ? curve.low() : curve.high();
}

/// The runs with the best value of a metric; none if all have the same.
std::set<size_t> best_runs(const std::string& metric, const std::vector<RunSummary>& runs,
                           const CurveOf& curve_of) {
  std::map<double, std::set<size_t>> by_value;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Curve* curve = curve_of(runs[i]);
    if (curve && !curve->empty()) by_value[best_in(metric, *curve)].insert(i);
  }
  if (by_value.size() < 2) return {};
  return lower_is_better(metric) ? by_value.begin()->second : by_value.rbegin()->second;
}

/// A row with the last value of each run, and its best one if that differs. The best of all runs is
/// marked.
HtmlRow result_row(const std::string& name, const std::vector<RunSummary>& runs,
                   const CurveOf& curve_of) {
  const std::set<size_t> marked = best_runs(name, runs, curve_of);
  HtmlRow row = {{metric_title(name), name}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const Curve* curve = curve_of(runs[i]);
    if (!curve || curve->empty()) {
      row.push_back({});
      continue;
    }
    TableCell cell = number_cell(curve->last());
    const TableCell best = number_cell(best_in(name, *curve));
    if (cell.raw != best.raw) cell.raw += ", best " + best.raw;
    if (cell.text != best.text) cell.text += " (best " + best.text + ")";
    if (marked.contains(i)) cell.css_class = "best";
    row.push_back(std::move(cell));
  }
  return row;
}

/// A row with `show` of each run.
HtmlRow row_of(const std::string& name, const std::vector<RunSummary>& runs,
               const std::function<std::string(const RunSummary&)>& show) {
  HtmlRow row = {{name}};
  for (const RunSummary& run : runs) row.push_back({show(run)});
  return row;
}

HtmlRow heading(const std::vector<RunSummary>& runs) {
  const std::vector<std::string> labels = labels_of(runs);
  HtmlRow head = {{""}};
  for (size_t i = 0; i < labels.size(); ++i) {
    head.push_back({labels[i], "", "key c" + std::to_string(i % 8)});
  }
  return head;
}

/// The metric by which the first run keeps its best checkpoints, if the runs have it.
std::string ranking_metric(const std::vector<RunSummary>& runs, const Values& recipe) {
  const auto kept = recipe.find("checkpoint.keep.metric");
  for (const std::string& name :
       {kept == recipe.end() ? std::string() : kept->second, std::string("eval/loss")}) {
    const Curve* curve = runs.front().curve(name);
    if (curve && !curve->empty()) return name;
  }
  return "train/loss";
}

/// "best by Eval loss: first, 0.123 at step 40".
std::string best_run(const std::vector<RunSummary>& runs, const std::string& metric) {
  const auto curve_of = [&](const RunSummary& run) {
    return metric == "train/loss" ? &run.loss : run.curve(metric);
  };
  const std::set<size_t> best = best_runs(metric, runs, curve_of);
  if (best.empty()) return "";
  const std::vector<std::string> labels = labels_of(runs);
  std::vector<std::string> names;
  for (const size_t i : best) names.push_back(labels[i]);
  const Curve& curve = *curve_of(runs[*best.begin()]);
  const int64_t step = lower_is_better(metric) ? curve.low_step() : curve.high_step();
  return "<p class=\"best\">" +
         html_text("Best by " + metric_title(metric) + ": " + joined(names) + ", " +
                   number_words(best_in(metric, curve)) + " at step " +
                   number_words(static_cast<double>(step))) +
         "</p>\n";
}

std::string results(const std::vector<RunSummary>& runs, const std::string& ranking) {
  std::vector<HtmlRow> rows = {
      row_of("standing", runs,
             [](const RunSummary& run) {
               const std::string damaged = damaged_words(run);
               return standing_words(run.standing()) + (damaged.empty() ? "" : "; " + damaged);
             }),
      row_of("steps", runs,
             [](const RunSummary& run) { return number_words(static_cast<double>(run.step)); }),
      row_of("time", runs,
             [](const RunSummary& run) { return duration_words(run.total_seconds()); }),
      result_row("train/loss", runs, [](const RunSummary& run) { return &run.loss; })};
  for (const std::string& name : names_of(runs)) {
    if (!name.starts_with("eval/") && !name.ends_with("_per_second")) continue;
    rows.push_back(result_row(name, runs, [&](const RunSummary& run) { return run.curve(name); }));
  }
  return "<section><h2>Results</h2>" + best_run(runs, ranking) + html_table(heading(runs), rows) +
         "</section>\n";
}

/// Every component of this binary.
const Registry& known_components() {
  static const Registry registry = [] {
    Registry made;
    Registration::enter_all(made);
    return made;
  }();
  return registry;
}

/// The options of a run's resolved recipe; none when it cannot be read.
Values recipe_values(const RunSummary& run) {
  const std::string path = run.folder + "/recipe.yaml";
  std::ifstream in = open_regular_file(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  try {
    const auto flat = flat_values(parse_saved_recipe(path, text, known_components()));
    return {flat.begin(), flat.end()};
  } catch (const RecipeError&) {
    return {};  // the other sections are still useful
  }
}

std::string recipe_differences(const std::vector<RunSummary>& runs,
                               const std::vector<Values>& recipes) {
  std::set<std::string> keys;
  for (const Values& values : recipes) {
    for (const auto& [key, value] : values) keys.insert(key);
  }
  std::vector<HtmlRow> rows;
  for (const std::string& key : keys) {
    HtmlRow row = {{key}};
    for (const Values& values : recipes) {
      const auto found = values.find(key);
      row.push_back({found == values.end() ? "" : found->second});
    }
    const bool same = std::all_of(row.begin() + 1, row.end(),
                                  [&](const TableCell& cell) { return cell.text == row[1].text; });
    if (!same) rows.push_back(std::move(row));
  }
  const std::string body =
      rows.empty() ? "<p>The recipes are the same.</p>" : html_table(heading(runs), rows);
  return "<section><h2>Recipes</h2>" + body + "</section>\n";
}

}  // namespace

std::string profile_section(const std::string& run_dir) {
  std::vector<std::string> others;
  std::string section;
  for (const fs::path& profile : profiles_in(fs::path(run_dir) / "profile")) {
    const std::string table = operator_table(profile / kTable);
    if (table.empty()) continue;
    if (section.empty()) {
      section = html_element("h2", "Profile of " + words_of(profile)) + table +
                memory_chart(profile / "rank_0_memory.csv");
    } else {
      others.push_back(words_of(profile));
    }
  }
  if (section.empty()) return "";
  if (!others.empty()) {
    section += html_element("p", "Earlier profiles in profile/: " + joined(others));
  }
  return "<section>" + section + "</section>\n";
}

std::string run_page(const RunSummary& run) {
  const std::string standing = standing_words(run.standing());
  std::string body = "<header><h1>" + html_text(run.name) + "</h1><span class=\"badge " + standing +
                     "\">" + standing + "</span><p>" + html_text(run.folder);
  if (!run.events.empty() && !run.events.front().time.empty()) {
    body += html_text(" · " + time_words(run.events.front().time) + " to " +
                      time_words(run.events.back().time) + " UTC");
  }
  body += "</p></header>\n";
  body += headline_cards(run) + trouble(run) + charts_of(run) + time_split(run) + plan_table(run);
  body += profile_section(run.folder);
  body += sample_images(run.folder) + event_table(run) + recipe_text(run.folder);
  body += about_table(run);
  return html_page(run.name + " · accel-run", body);
}

std::string compare_page(const std::vector<RunSummary>& runs) {
  const std::string title = joined(labels_of(runs));
  std::vector<Values> recipes;
  for (const RunSummary& run : runs) recipes.push_back(recipe_values(run));
  const std::string ranking = ranking_metric(runs, recipes.front());
  return html_page(title + " · accel-run", "<header><h1>" + html_text(title) + "</h1></header>\n" +
                                               results(runs, ranking) + charts_of(runs) +
                                               recipe_differences(runs, recipes));
}

void write_own_report(const std::string& run_dir) {
  RunSummary run = read_run(run_dir);
  run.pulse = RunPulse::kNobody;
  write_file_atomically(run_dir + "/report.html", run_page(run));
}

std::string write_report(const std::vector<std::string>& run_dirs, const std::string& path) {
  if (run_dirs.size() > 1 && path.empty()) {
    throw Error(ExitCode::kRecipe, "a report on several runs needs an output file",
                "give one: --output FILE.html");
  }
  std::vector<RunSummary> runs;
  for (const std::string& run_dir : run_dirs) runs.push_back(read_run(run_dir));
  const std::string target = path.empty() ? run_dirs.front() + "/report.html" : path;
  write_file_atomically(target, runs.size() == 1 ? run_page(runs.front()) : compare_page(runs));
  return target;
}

}  // namespace accel
