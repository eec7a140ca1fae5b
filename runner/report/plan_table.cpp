#include "runner/report/plan_table.h"

#include <algorithm>
#include <array>

#include "runner/report/html.h"

namespace accel {
namespace {

using TableCells = std::array<std::string, 4>;

double actually(const RunSummary& run, const std::string& key) {
  const auto found = run.actual.find(key);
  return found == run.actual.end() ? 0 : found->second;
}

/// A quantity by its key in the record; what is 0 is not known.
TableCells comparison(const RunSummary& run, const std::string& name, const std::string& key) {
  const double planned = run.planned(key), actual = actually(run, key);
  const auto words = [](double value) { return value > 0 ? number_words(value) : std::string(); };
  return {name, words(planned), words(actual),
          planned > 0 && actual > 0 ? number_words(actual / planned, 3) : ""};
}

/// The table with its head; only that where the run was not planned.
std::vector<TableCells> plan_cells(const RunSummary& run) {
  std::vector<TableCells> rows = {{"", "planned", "actual", "actual / planned"}};
  if (run.planned("parameters") == 0) return rows;
  rows.push_back(comparison(run, "parameters", "parameters"));
  for (const auto& [name, key] : {std::pair{"memory of rank 0, MiB", "memory_mib"},
                                  std::pair{"seconds of a step", "step_seconds"}}) {
    TableCells row = comparison(run, name, key);
    if (!row[1].empty() || !row[2].empty()) rows.push_back(std::move(row));
  }
  const double flops = run.planned("flops"), seconds = actually(run, "step_seconds");
  if (flops > 0) {
    rows.push_back({"compute of a step, GFLOP", number_words(flops / 1e9),
                    seconds > 0 ? number_words(flops / seconds / 1e9) + " a second" : "", ""});
  }
  return rows;
}

}  // namespace

std::string plan_table(const RunSummary& run) {
  const std::vector<TableCells> rows = plan_cells(run);
  if (rows.size() == 1) return "";
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "<tr>";
    for (size_t column = 0; column < rows[i].size(); ++column) {
      out += html_element(i == 0 || column == 0 ? "th" : "td", rows[i][column]);
    }
    out += "</tr>\n";
  }
  return "<section><h2>Planned and actual</h2><div class=\"wide\"><table>" + out +
         "</table></div></section>\n";
}

std::vector<std::string> plan_table_lines(const RunSummary& run) {
  const std::vector<TableCells> rows = plan_cells(run);
  if (rows.size() == 1) return {};
  std::array<size_t, 4> widths = {};
  for (const TableCells& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const TableCells& row : rows) {
    std::string line = row[0];
    line.resize(widths[0], ' ');
    for (size_t i = 1; i < row.size(); ++i) {
      line.append(2 + widths[i] - row[i].size(), ' ').append(row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace accel
