#include "runner/report/compare_page.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "core/diagnostic.h"
#include "core/flat_values.h"
#include "runner/report/chart.h"
#include "runner/report/html.h"
#include "runner/report/page_style.h"
#include "runner/report/run_tables.h"

namespace accel {
namespace {

using Values = std::map<std::string, std::string>;
using CurveOf = std::function<const Curve*(const RunSummary&)>;

/// What to call each run: its folder's name, or the path where two have the same.
std::vector<std::string> labels_of(const std::vector<RunSummary>& runs) {
  std::vector<std::string> labels;
  for (const RunSummary& run : runs) {
    const auto same = std::count_if(
        runs.begin(), runs.end(), [&](const RunSummary& other) { return other.name == run.name; });
    labels.push_back(same > 1 ? run.folder : run.name);
  }
  return labels;
}

std::string compared(const std::string& title, const std::vector<RunSummary>& runs,
                     const CurveOf& curve_of) {
  const std::vector<std::string> labels = labels_of(runs);
  Chart chart{.title = title, .lines = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const Curve* curve = curve_of(runs[i]);
    if (curve) chart.lines.push_back({labels[i], curve, static_cast<int>(i), false, false});
  }
  chart.may_be_logarithmic = title.find("loss") != title.npos;
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
    const Curve* means = run.curve("train/loss");  // steps' own are a thicket
    return means ? means : &run.loss;
  });
  for (const std::string& name : names_of(runs)) {
    if (name == "train/loss" || name == "train/epoch") continue;
    out += compared(name, runs, [&](const RunSummary& run) { return run.curve(name); });
  }
  return "<section class=\"charts\">\n" + out + "</section>\n";
}

std::string cells(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += html_element("td", text);
  return out;
}

/// A row with what `show` says of each run.
std::string row_of(const std::string& name, const std::vector<RunSummary>& runs,
                   const std::function<std::string(const RunSummary&)>& show) {
  std::vector<std::string> texts;
  for (const RunSummary& run : runs) texts.push_back(show(run));
  return "<tr><th>" + html_text(name) + "</th>" + cells(texts) + "</tr>\n";
}

std::string heading(const std::vector<RunSummary>& runs) {
  const std::vector<std::string> labels = labels_of(runs);
  std::string out = "<thead><tr><th></th>";
  for (size_t i = 0; i < labels.size(); ++i) {
    out +=
        "<th class=\"key c" + std::to_string(i % 8) + "\"><i></i>" + html_text(labels[i]) + "</th>";
  }
  return out + "</tr></thead>\n";
}

std::string results(const std::vector<RunSummary>& runs) {
  std::string rows = row_of("standing", runs, [](const RunSummary& run) {
    return std::string(standing_words(run.standing()));
  });
  rows += row_of("steps", runs,
                 [](const RunSummary& run) { return number_words(static_cast<double>(run.step)); });
  rows += row_of("time", runs,
                 [](const RunSummary& run) { return duration_words(run.total_seconds()); });
  rows += row_of("train/loss, last step", runs, [](const RunSummary& run) {
    return run.loss.empty() ? "" : number_words(run.loss.last(), 6);
  });
  for (const std::string& name : names_of(runs)) {
    if (!name.starts_with("eval/") && !name.ends_with("_per_second")) continue;
    rows += row_of(name, runs, [&](const RunSummary& run) {
      const Curve* curve = run.curve(name);
      if (!curve) return std::string();
      return number_words(curve->last(), 6) + " (" + number_words(curve->low()) + " to " +
             number_words(curve->high()) + ")";
    });
  }
  return "<section><h2>Results</h2><div class=\"wide\"><table>" + heading(runs) + rows +
         "</table></div></section>\n";
}

/// The options of a run's resolved recipe; none when it cannot be read.
Values recipe_values(const RunSummary& run) {
  const std::string path = run.folder + "/recipe.yaml";
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  try {
    const auto flat = flat_values(parse_recipe(path, text));
    return {flat.begin(), flat.end()};
  } catch (const RecipeError&) {
    return {};  // a report on the rest is better than none
  }
}

std::string recipe_differences(const std::vector<RunSummary>& runs) {
  std::vector<Values> recipes;
  std::set<std::string> keys;
  for (const RunSummary& run : runs) {
    recipes.push_back(recipe_values(run));
    for (const auto& [key, value] : recipes.back()) keys.insert(key);
  }
  std::string rows;
  for (const std::string& key : keys) {
    std::vector<std::string> texts;
    for (const Values& values : recipes) {
      const auto found = values.find(key);
      texts.push_back(found == values.end() ? "" : found->second);
    }
    const bool same = std::all_of(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return text == texts[0]; });
    if (!same) rows += "<tr><th>" + html_text(key) + "</th>" + cells(texts) + "</tr>\n";
  }
  const std::string body =
      rows.empty() ? "<p>The recipes are the same.</p>"
                   : "<div class=\"wide\"><table>" + heading(runs) + rows + "</table></div>";
  return "<section><h2>Recipes</h2>" + body + "</section>\n";
}

}  // namespace

std::string compare_page(const std::vector<RunSummary>& runs) {
  std::string title;
  for (const std::string& label : labels_of(runs)) title += (title.empty() ? "" : ", ") + label;
  return html_page(title + " · accel-run", "<header><h1>" + html_text(title) + "</h1></header>\n" +
                                               results(runs) + charts_of(runs) +
                                               recipe_differences(runs));
}

}  // namespace accel
