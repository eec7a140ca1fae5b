#include "runner/report/run_tables.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/metric_names.h"
#include "formats/base64.h"
#include "runner/report/html.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// A regular file of at most `limit` bytes; empty if missing or larger.
std::string small_file(const fs::path& path, std::uintmax_t limit) {
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown) || fs::file_size(path, unknown) > limit) return "";
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string card(const TableCell& name, const TableCell& value, const std::string& more = "") {
  return "<div class=\"card\"><span" + raw_attribute(name.raw, name.text) + ">" +
         html_text(name.text) + "</span><b" + raw_attribute(value.raw, value.text) + ">" +
         html_text(value.text) + "</b>" +
         (more.empty() ? "" : "<small>" + html_text(more) + "</small>") + "</div>";
}

TableCell metric_cell(const std::string& metric) {
  return {metric_title(metric), metric};
}

std::string steps_words(const RunSummary& run) {
  const double total = run.planned("total_steps");
  return total > 0 ? "of " + number_words(total) : "";
}

std::string row(const std::string& name, const std::string& value) {
  return "<tr><th>" + html_text(name) + "</th><td>" + html_text(value) + "</td></tr>\n";
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "<section><h2>" + html_text(title) + "</h2>" + body + "</section>\n";
}

std::string event_row(const RunEvent& event) {
  const bool bad = event.name == "failed";
  return std::string("<tr") + (bad ? " class=\"bad\"" : "") + "><td>" + std::to_string(event.step) +
         "</td><td class=\"event\">" + html_text(event.name) + "</td><td class=\"text\">" +
         html_text(event.text) + "</td><td class=\"time\"" +
         raw_attribute(event.time, time_words(event.time)) + ">" +
         html_text(time_words(event.time)) + "</td></tr>\n";
}

/// A line of YAML with its trailing comment, the origin of the value, marked up.
std::string yaml_line(const std::string& line) {
  const size_t comment = line.rfind("  # ");
  if (comment == line.npos) return html_text(line) + "\n";
  return html_text(line.substr(0, comment)) + "<i>" + html_text(line.substr(comment)) + "</i>\n";
}

using TableCells = std::array<TableCell, 4>;

double actually(const RunSummary& run, const std::string& key) {
  const auto found = run.actual.find(key);
  return found == run.actual.end() ? 0 : found->second;
}

/// A quantity by its key in the record; 0 is unknown.
TableCells comparison(const RunSummary& run, const std::string& name, const std::string& key) {
  const double planned = run.planned(key), actual = actually(run, key);
  const auto cell = [](double value) { return value > 0 ? number_cell(value) : TableCell(); };
  return {TableCell{name}, cell(planned), cell(actual),
          planned > 0 && actual > 0 ? number_cell(actual / planned, 3) : TableCell()};
}

/// The table with its head; only the head without a plan.
std::vector<TableCells> plan_cells(const RunSummary& run) {
  std::vector<TableCells> rows = {{{{""}, {"planned"}, {"actual"}, {"actual / planned"}}}};
  if (run.planned("parameters") == 0) return rows;
  rows.push_back(comparison(run, "parameters", "parameters"));
  for (const auto& [name, key] : {std::pair{"memory of rank 0, MiB", "memory_mib"},
                                  std::pair{"seconds per step", "step_seconds"}}) {
    TableCells row = comparison(run, name, key);
    if (!row[1].text.empty() || !row[2].text.empty()) rows.push_back(std::move(row));
  }
  const double flops = run.planned("flops"), seconds = actually(run, "step_seconds");
  const double planned_seconds = run.planned("step_seconds");
  if (flops > 0) rows.push_back({{{"GFLOP per step"}, number_cell(flops / 1e9), {}, {}}});
  if (flops > 0 && seconds > 0) {
    TableCells row = {{{"GFLOP per second"}, {}, number_cell(flops / seconds / 1e9), {}}};
    if (planned_seconds > 0) {
      row[1] = number_cell(flops / planned_seconds / 1e9);
      row[3] = number_cell(planned_seconds / seconds, 3);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

const char* standing_words(RunStanding standing) {
  static constexpr std::array<const char*, 7> kWords = {
      "running", "finished", "interrupted", "failed", "crashed", "unknown", "paused"};
  return kWords[static_cast<size_t>(standing)];
}

std::string damaged_words(const RunSummary& run) {
  if (run.damaged_lines == 0) return "";
  if (run.damaged_lines == 1) return "1 damaged line of the record is left out";
  return number_words(static_cast<double>(run.damaged_lines)) +
         " damaged lines of the record are left out";
}

std::string headline_cards(const RunSummary& run) {
  std::string out = "<div class=\"cards\">";
  out += card({"Steps"}, number_cell(static_cast<double>(run.step)), steps_words(run));
  if (run.samples > 0) out += card({"Samples"}, number_cell(run.samples));
  if (run.total_seconds() > 0) out += card({"Time"}, {duration_words(run.total_seconds())});
  if (!run.loss.empty()) {
    out += card(metric_cell("train/loss"), number_cell(run.loss.last()),
                "lowest " + number_words(run.loss.low()));
  }
  for (const auto& [name, curve] : run.logged) {
    if (!name.starts_with("eval/") || curve.empty()) continue;
    const bool lower = lower_is_better(name);
    out +=
        card(metric_cell(name), number_cell(curve.last()),
             "best " + number_words(lower ? curve.low() : curve.high()) + " at step " +
                 number_words(static_cast<double>(lower ? curve.low_step() : curve.high_step())));
  }
  if (const Curve* speed = run.curve("train/samples_per_second")) {
    out += card(metric_cell("train/samples_per_second"), number_cell(speed->last()),
                "best " + number_words(speed->high()));
  }
  return out + "</div>\n";
}

std::string trouble(const RunSummary& run) {
  std::string out;
  const auto add = [&](const std::string& text) { out += html_element("li", text); };
  const RunStanding standing = run.standing();
  if (standing == RunStanding::kFailed) add("failed: " + run.last_event("failed")->text);
  if (standing == RunStanding::kCrashed) {
    add("ended without a final record after step " + std::to_string(run.step) +
        ", as after a kill or a machine failure");
  }
  if (run.skipped > 0) {
    add(number_words(static_cast<double>(run.skipped)) +
        " steps were skipped because of non-finite values; the first was step " +
        std::to_string(run.first_skipped));
  }
  if (run.loss.not_finite() > 0) {
    add("the loss of " + number_words(static_cast<double>(run.loss.not_finite())) +
        " steps was not finite; the first was step " + std::to_string(run.loss.first_not_finite()));
  }
  if (run.damaged_lines > 0) add(damaged_words(run));
  if (run.names_left_out > 0) {
    add(number_words(static_cast<double>(run.names_left_out)) +
        " metrics are left out: too many names");
  }
  return out.empty() ? out : "<ul class=\"trouble\">" + out + "</ul>\n";
}

std::string time_split(const RunSummary& run) {
  const double total = run.total_seconds();
  if (!(total > 0)) return "";
  std::vector<std::pair<std::string, double>> parts(run.seconds.begin(), run.seconds.end());
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string bar, keys;
  double x = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, seconds] = parts[i];
    const double width = 480 * seconds / total;
    const std::string color = " c" + std::to_string(i % 8);
    const std::string words = name + " " + number_words(100 * seconds / total, 2) + " %";
    bar += "<rect class=\"part" + color + "\" x=\"" + coordinate(x) + "\" y=\"0\" width=\"" +
           coordinate(width) + "\" height=\"24\"><title>" + html_text(words) + "</title></rect>";
    keys += "<span class=\"key" + color + "\"><i></i>" + html_text(words) + " <b>" +
            duration_words(seconds) + "</b></span>";
    x += width;
  }
  return section("Time",
                 "<div class=\"split\"><svg viewBox=\"0 0 480 24\" role=\"img\" "
                 "aria-label=\"where the time went\" preserveAspectRatio=\"none\">" +
                     bar + "</svg><p>" + keys + "</p></div>");
}

std::string event_table(const RunSummary& run) {
  std::string rows;
  std::string saved;
  if (run.saves > 0) {
    RunEvent saves = run.last_save;
    saves.name = "save";
    saves.text += ", the last of " + number_words(static_cast<double>(run.saves));
    saved = event_row(saves);
  }
  for (size_t i = 0; i < run.events.size(); ++i) {
    if (i == run.events_before_save) rows += saved;
    rows += event_row(run.events[i]);
  }
  if (run.events_before_save >= run.events.size()) rows += saved;
  if (rows.empty()) return "";
  if (run.events_left_out > 0) {
    rows += "<tr><td colspan=\"4\">" + number_words(static_cast<double>(run.events_left_out)) +
            " events in the middle are left out</td></tr>";
  }
  return section("Events",
                 "<div class=\"wide\"><table class=\"events\"><thead><tr><th>step</th>"
                 "<th>event</th><th></th><th>time, UTC</th></tr></thead><tbody>" +
                     rows + "</tbody></table></div>");
}

std::string about_table(const RunSummary& run) {
  std::string rows;
  for (const auto& [name, value] : run.about) rows += row(name, value);
  if (rows.empty()) return "";
  return section("Environment",
                 "<div class=\"wide\"><table class=\"about\">" + rows + "</table></div>");
}

std::string recipe_text(const std::string& run_dir) {
  constexpr std::uintmax_t kMost = 512 << 10;
  std::istringstream in(small_file(fs::path(run_dir) / "recipe.yaml", kMost));
  std::string lines;
  for (std::string line; std::getline(in, line);) lines += yaml_line(line);
  if (lines.empty()) return "";
  return section("Recipe",
                 "<p class=\"note\">With every default, and where each value comes "
                 "from.</p><pre>" +
                     lines + "</pre>");
}

std::string sample_images(const std::string& run_dir) {
  constexpr std::uintmax_t kMost = 32 << 10;
  constexpr int kMostImages = 8;
  std::string images;
  for (int i = 0; i < kMostImages; ++i) {
    const std::string name = "samples/" + std::to_string(i) + ".png";
    const std::string bytes = small_file(fs::path(run_dir) / name, kMost);
    if (!bytes.starts_with("\x89PNG")) continue;
    images += "<img alt=\"" + name + "\" src=\"data:image/png;base64," + base64(bytes) + "\">";
  }
  return section("Samples", images.empty() ? "" : "<div class=\"samples\">" + images + "</div>");
}

std::string plan_table(const RunSummary& run) {
  const std::vector<TableCells> rows = plan_cells(run);
  if (rows.size() == 1) return "";
  std::vector<HtmlRow> cells;
  for (const TableCells& row : rows) cells.emplace_back(row.begin(), row.end());
  const HtmlRow head = cells.front();
  cells.erase(cells.begin());
  return section("Planned and actual", html_table(head, cells));
}

std::vector<std::string> plan_table_lines(const RunSummary& run) {
  const std::vector<TableCells> rows = plan_cells(run);
  if (rows.size() == 1) return {};
  std::array<size_t, 4> widths = {};
  for (const TableCells& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].text.size());
  }
  std::vector<std::string> lines;
  for (const TableCells& row : rows) {
    std::string line = row[0].text;
    line.resize(widths[0], ' ');
    for (size_t i = 1; i < row.size(); ++i) {
      line.append(2 + widths[i] - row[i].text.size(), ' ').append(row[i].text);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace accel
