#include "runner/report/profile_section.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "runner/formats/csv.h"
#include "runner/report/chart.h"
#include "runner/report/html.h"

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

/// Calls `take` with each record but the head. Nothing of a file that is absent or of no such
/// table.
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
  return;  // a report is of what can be read
}

std::string operator_table(const fs::path& path) {
  constexpr int kMost = 25;
  constexpr size_t kColumns = 6;
  double all = 0;
  int count = 0;
  std::string rows;
  each_record(path, kColumns, [&](const Fields& record) { all += number_in(record[4]); });
  each_record(path, kColumns, [&](const Fields& record) {
    if (++count > kMost) return;
    rows += "<tr>" + html_element("th", record[0]);
    for (const std::string_view text : {record[1], record[2], record[3]}) {
      rows += html_element("td", text);
    }
    const double own = number_in(record[4]);
    rows += html_element("td", number_words(own)) +
            html_element("td", all > 0 ? number_words(100 * own / all, 3) : "") +
            html_element("td", number_words(number_in(record[5]))) + "</tr>\n";
  });
  if (rows.empty()) return "";
  std::string head;
  for (const char* name :
       {"operator", "device", "shapes", "calls", "self, ms", "self, %", "total, ms"}) {
    head += html_element("th", name);
  }
  return "<div class=\"wide\"><table><tr>" + head + "</tr>\n" + rows + "</table></div>";
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

/// Folders of windows with a table of rank 0, the one that was written last first.
std::vector<fs::path> windows_in(const fs::path& folder) {
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

}  // namespace

std::string profile_section(const std::string& run_dir) {
  std::vector<std::string> others;
  std::string section;
  for (const fs::path& window : windows_in(fs::path(run_dir) / "profile")) {
    const std::string table = operator_table(window / kTable);
    if (table.empty()) continue;
    if (section.empty()) {
      section = html_element("h2", "Profile of " + words_of(window)) + table +
                memory_chart(window / "rank_0_memory.csv");
    } else {
      others.push_back(words_of(window));
    }
  }
  if (section.empty()) return "";
  std::string list;
  for (const std::string& other : others) list += (list.empty() ? "" : ", ") + other;
  if (!list.empty()) section += html_element("p", "Profiled before, in profile/: " + list);
  return "<section>" + section + "</section>\n";
}

}  // namespace accel
