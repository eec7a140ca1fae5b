#include "runner/report/html.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "core/base/build_info.h"
#include "core/base/json_text.h"
#include "core/base/progress_text.h"

namespace accel {
namespace {

std::string class_attribute(const std::string& css_class) {
  return css_class.empty() ? "" : " class=\"" + css_class + "\"";
}

std::string head_cell(const TableCell& cell) {
  // The color of a run's curves.
  const std::string icon = cell.css_class.starts_with("key") ? "<i></i>" : "";
  return "<th" + class_attribute(cell.css_class) + ">" + icon + html_text(cell.text) + "</th>";
}

std::string value_cell(const TableCell& cell, const std::string& column) {
  const std::string name = column.empty() ? "" : " data-column=\"" + html_text(column) + "\"";
  return "<td" + class_attribute(cell.css_class) + name + raw_attribute(cell.raw, cell.text) + ">" +
         html_text(cell.text) + "</td>";
}

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --ink: #1d2330; --soft: #667085; --rule: #e3e6ec; --paper: #ffffff; --tint: #f5f6f9;
  --bad: #c4320a; --good: #067647; --p0: #2f6fde; --p1: #d9730d; --p2: #178a5c; --p3: #a046c9;
  --p4: #c8324a; --p5: #0e8fa6; --p6: #8a6d1b; --p7: #6b7280; }
@media screen and (prefers-color-scheme: dark) { :root {
  --ink: #e6e9f0; --soft: #98a2b3; --rule: #2e3442; --paper: #14171f; --tint: #1c212c;
  --bad: #ff8a65; --good: #5fd3a0; --p0: #6ea0ff; --p1: #f5a45c; --p2: #4fc795; --p3: #cb8bea;
  --p4: #f2798b; --p5: #4fc3d9; --p6: #cfb25a; --p7: #9aa3b2; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem clamp(.8rem, 3vw, 2rem) 3rem; max-width: 76rem;
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 0; }
header { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: center;
  margin-bottom: 1rem; }
header p { flex-basis: 100%; margin: 0; color: var(--soft); overflow-wrap: anywhere; }
.badge { border: 1px solid; border-radius: 1rem; padding: 0 .7rem; font-size: .85rem;
  color: var(--soft); }
.badge.finished, .badge.running { color: var(--good); }
.badge.failed, .badge.crashed { color: var(--bad); }
.cards { display: grid; gap: .6rem; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
.card { background: var(--tint); border-radius: .6rem; padding: .55rem .8rem; min-width: 0; }
.card span, .card small { display: block; color: var(--soft); font-size: .8rem;
  overflow-wrap: anywhere; }
.card b { font-size: 1.25rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.trouble { border-left: 3px solid var(--bad); background: var(--tint); margin: 1rem 0;
  padding: .6rem 1rem .6rem 2rem; overflow-wrap: anywhere; }
.charts { display: grid; gap: 1rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0; padding: .7rem .8rem .4rem; border: 1px solid var(--rule);
  border-radius: .6rem; break-inside: avoid; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: .1rem .9rem; align-items: baseline; }
svg { display: block; width: 100%; height: auto; }
.key { font-size: .82rem; color: var(--soft); overflow-wrap: anywhere; }
.key b { color: var(--ink); font-weight: 600; font-variant-numeric: tabular-nums; }
.key.faint i { opacity: .45; }
.key i { display: inline-block; width: .7rem; height: .7rem; margin-right: .35rem;
  border-radius: .2rem; background: var(--c); }
.note { color: var(--soft); font-size: .78rem; margin: .2rem 0; }
.grid path { stroke: var(--rule); stroke-width: 1; fill: none; }
svg text { fill: var(--soft); font-size: 13px; }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; }
.line.faint { stroke-width: 1; opacity: .38; }
.band { fill: var(--c); opacity: .22; }
.dot { fill: var(--c); }
circle.best { fill: none; stroke: var(--c); stroke-width: 2; }
.key.best i { background: none; border: 2px solid var(--c); border-radius: 50%; }
.part { fill: var(--c); }
.mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
.mark.bad { stroke: var(--bad); stroke-dasharray: none; }
.mark-key i { width: 0; height: .9rem; margin-left: .3rem; vertical-align: -.15rem;
  background: none; border-left: 1px dashed var(--soft); border-radius: 0; }
.mark-key.bad i { border-left: 1px solid var(--bad); }
.c0 { --c: var(--p0); } .c1 { --c: var(--p1); } .c2 { --c: var(--p2); } .c3 { --c: var(--p3); }
.c4 { --c: var(--p4); } .c5 { --c: var(--p5); } .c6 { --c: var(--p6); } .c7 { --c: var(--p7); }
.split svg { height: 1.6rem; border-radius: .4rem; }
.split p { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .5rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .28rem .8rem .28rem 0;
  border-bottom: 1px solid var(--rule); overflow-wrap: break-word; min-width: 3.5rem; }
td { font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; }
th.key { overflow-wrap: break-word; }
.about td, td.text { overflow-wrap: anywhere; min-width: 10rem; }
td.time { color: var(--soft); }
td.event, td.time { white-space: nowrap; }
td.best, p.best { color: var(--good); font-weight: 600; }
p.best { margin: 0 0 .6rem; overflow-wrap: anywhere; }
tr.bad td { color: var(--bad); }
pre { background: var(--tint); border-radius: .6rem; padding: .8rem; overflow-x: auto;
  font-size: .8rem; line-height: 1.4; }
pre i { color: var(--soft); font-style: normal; }
.samples { display: flex; flex-wrap: wrap; gap: .6rem; }
.samples img { width: 7rem; image-rendering: pixelated; border: 1px solid var(--rule);
  border-radius: .3rem; }
@media screen and (max-width: 34rem) {
  .events, .events tbody { display: block; }
  .events thead { display: none; }
  .events tr { display: grid; grid-template-columns: 3.5rem 1fr auto; padding: .28rem 0;
    border-bottom: 1px solid var(--rule); }
  .events td { border: 0; padding: 0 .6rem 0 0; min-width: 0; grid-row: 1; }
  .events td.text { grid-row: 2; grid-column: 1 / -1; }
  .stacked, .stacked tbody { display: block; }
  .stacked thead { display: none; }
  .stacked tr { display: block; padding: .35rem 0; border-bottom: 1px solid var(--rule); }
  .stacked th, .stacked td { display: block; border: 0; padding: .05rem 0; min-width: 0; }
  .stacked th { color: var(--ink); font-weight: 600; }
  .stacked td { display: flex; gap: .8rem; justify-content: space-between; text-align: right; }
  .stacked td:empty { display: none; }
  .stacked td::before { content: attr(data-column); color: var(--soft); font-weight: 400;
    text-align: left; flex: none; max-width: 60%; overflow-wrap: anywhere; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
footer { margin-top: 2.5rem; color: var(--soft); font-size: .8rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  .charts { grid-template-columns: 1fr 1fr; }
  .cards { grid-template-columns: repeat(5, 1fr); }
  .card, .band, .part, .key i, pre, .trouble { print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
  pre { white-space: pre-wrap; overflow: visible; }
  .wide { overflow: visible; }
  tr, .cards { break-inside: avoid; }
  h2 { break-after: avoid; }
}
)css";

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    const bool forbidden = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (forbidden) {
      out += "\xef\xbf\xbd";
    } else {
      out += c;
    }
  }
  return out;
}

std::string html_element(const std::string& name, std::string_view text) {
  return "<" + name + ">" + html_text(text) + "</" + name + ">";
}

std::string number_words(double value, int digits) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  constexpr double kWritten = 1e15;
  const bool large = std::fabs(value) >= std::pow(10.0, digits - 1) || value == std::floor(value);
  if (large && std::fabs(value) < kWritten) {
    return grouped_digits(std::llround(value));
  }
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string coordinate(double value) {
  std::array<char, 40> text;
  const double tenths = std::isfinite(value) ? std::round(value * 10) / 10 : 0;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), tenths == 0 ? 0 : tenths);
  return {text.data(), end.ptr};
}

std::string duration_words(double seconds) {
  if (!(seconds > 0)) return "0 s";
  std::array<char, 48> text;
  constexpr double kLongest = 1e12;
  const auto total = static_cast<long>(std::min(seconds, kLongest));
  if (total < 10) {
    std::snprintf(text.data(), text.size(), "%.2g s", seconds);
  } else if (total < 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", total / 60, total % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", total / 3600, total / 60 % 60,
                  total % 60);
  }
  return text.data();
}

std::string time_words(const std::string& time) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00Z";
  const auto fits = [](char c, char shape) {
    return shape == '0' ? c >= '0' && c <= '9' : c == shape;
  };
  if (!std::equal(time.begin(), time.end(), kShape.begin(), kShape.end(), fits)) return time;
  return time.substr(0, kShape.find('T')) + " " + time.substr(kShape.find('T') + 1, 8);
}

std::string exact_number(double value) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

TableCell number_cell(double value, int digits) {
  return {number_words(value, digits), exact_number(value)};
}

std::string raw_attribute(const std::string& raw, const std::string& shown) {
  return raw.empty() || raw == shown ? "" : " title=\"" + html_text(raw) + "\"";
}

std::string html_table(const HtmlRow& head, const std::vector<HtmlRow>& rows) {
  if (rows.empty()) return "";
  std::string out = "<div class=\"wide\"><table class=\"stacked\"><thead><tr>";
  for (const TableCell& cell : head) out += head_cell(cell);
  out += "</tr></thead>\n<tbody>";
  for (const HtmlRow& row : rows) {
    out +=
        "<tr><th" + raw_attribute(row[0].raw, row[0].text) + ">" + html_text(row[0].text) + "</th>";
    for (size_t i = 1; i < row.size(); ++i) {
      out += value_cell(row[i], i < head.size() ? head[i].text : "");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

std::string html_page(const std::string& title, const std::string& body) {
  const BuildInfo build = build_info();
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n<title>";
  out += html_text(title);
  out += "</title>\n<style>";
  out += kStyle;
  out += "</style></head>\n<body>\n";
  out += body;
  out += "<footer>accel-run ";
  out += html_text(build.version);
  out += " (";
  out += html_text(build.commit);
  out += ")</footer>\n</body></html>\n";
  return out;
}

}  // namespace accel
