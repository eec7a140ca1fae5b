#include "runner/report/run_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runner/formats/base64.h"
#include "runner/report/html.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// At most `limit` bytes of a regular file; empty when it is not there or larger.
std::string small_file(const fs::path& path, std::uintmax_t limit) {
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown) || fs::file_size(path, unknown) > limit) return "";
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string card(const std::string& name, const std::string& value, const std::string& more = "") {
  return "<div class=\"card\"><span>" + html_text(name) + "</span><b>" + html_text(value) + "</b>" +
         (more.empty() ? "" : "<small>" + html_text(more) + "</small>") + "</div>";
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
         "</td><td class=\"event\">" + html_text(event.name) + "</td><td>" + html_text(event.text) +
         "</td><td class=\"time\">" + html_text(event.time) + "</td></tr>\n";
}

/// A line of YAML with the comment at its end set apart: the origin of a value.
std::string yaml_line(const std::string& line) {
  const size_t comment = line.rfind("  # ");
  if (comment == line.npos) return html_text(line) + "\n";
  return html_text(line.substr(0, comment)) + "<i>" + html_text(line.substr(comment)) + "</i>\n";
}

}  // namespace

const char* standing_words(RunStanding standing) {
  static constexpr std::array<const char*, 7> kWords = {
      "running", "finished", "interrupted", "failed", "crashed", "unknown", "paused"};
  return kWords[static_cast<size_t>(standing)];
}

std::string headline_cards(const RunSummary& run) {
  std::string out = "<div class=\"cards\">";
  out += card("steps", number_words(static_cast<double>(run.step)), steps_words(run));
  if (run.samples > 0) out += card("samples", number_words(run.samples));
  if (run.total_seconds() > 0) out += card("time", duration_words(run.total_seconds()));
  if (!run.loss.empty()) {
    out +=
        card("train/loss", number_words(run.loss.last()), "lowest " + number_words(run.loss.low()));
  }
  for (const auto& [name, curve] : run.logged) {
    if (!name.starts_with("eval/") || curve.empty()) continue;
    out += card(name, number_words(curve.last()),
                number_words(curve.low()) + " to " + number_words(curve.high()));
  }
  if (const Curve* speed = run.curve("train/samples_per_second")) {
    out += card("samples/s", number_words(speed->last()), "best " + number_words(speed->high()));
  }
  return out + "</div>\n";
}

std::string trouble(const RunSummary& run) {
  std::string out;
  const auto add = [&](const std::string& text) { out += html_element("li", text); };
  const RunStanding standing = run.standing();
  if (standing == RunStanding::kFailed) add("failed: " + run.last_event("failed")->text);
  if (standing == RunStanding::kCrashed) {
    add("ended without a word after step " + std::to_string(run.step) +
        ", as a killed process or a machine that went down does");
  }
  if (run.skipped > 0) {
    add(number_words(static_cast<double>(run.skipped)) +
        " steps updated nothing, as a value was not finite; the first was step " +
        std::to_string(run.first_skipped));
  }
  if (run.loss.not_finite() > 0) {
    add("the loss of " + number_words(static_cast<double>(run.loss.not_finite())) +
        " steps was not finite; the first was step " + std::to_string(run.loss.first_not_finite()));
  }
  if (run.names_left_out > 0) {
    add(number_words(static_cast<double>(run.names_left_out)) +
        " values are left out, as there are too many names");
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
  for (const RunEvent& event : run.events) rows += event_row(event);
  if (run.saves > 0) {
    RunEvent saves = run.last_save;
    saves.name = "save";
    saves.text += ", the last of " + number_words(static_cast<double>(run.saves));
    rows += event_row(saves);
  }
  if (rows.empty()) return "";
  if (run.events_left_out > 0) {
    rows += "<tr><td colspan=\"4\">" + number_words(static_cast<double>(run.events_left_out)) +
            " events in the middle are left out</td></tr>";
  }
  return section("Events",
                 "<div class=\"wide\"><table class=\"events\"><thead><tr><th>step</th>"
                 "<th>event</th><th></th><th>time</th></tr></thead><tbody>" +
                     rows + "</tbody></table></div>");
}

std::string about_table(const RunSummary& run) {
  std::string rows;
  for (const auto& [name, value] : run.about) rows += row(name, value);
  if (rows.empty()) return "";
  return section("Environment", "<div class=\"wide\"><table>" + rows + "</table></div>");
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

}  // namespace accel
