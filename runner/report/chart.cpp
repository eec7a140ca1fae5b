#include "runner/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/report/html.h"
#include "runner/report/ladder.h"

namespace accel {
namespace {

constexpr double kWidth = 480, kHeight = 226;
constexpr double kLeft = 62, kRight = 458, kTop = 10, kBottom = 202;

/// From values to places in the drawing.
struct Frame {
  double first = 0, last = 1, low = 0, high = 1;
  bool logarithmic = false;

  double x(double step) const { return kLeft + (kRight - kLeft) * (step - first) / (last - first); }
  double x(int64_t step) const { return x(static_cast<double>(step)); }
  double y(double value) const {
    const double height =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return kBottom - (kBottom - kTop) * height;
  }
};

Frame frame_of(const Chart& chart) {
  Frame frame;
  frame.first = frame.low = std::numeric_limits<double>::infinity();
  frame.last = frame.high = -frame.first;
  for (const ChartLine& line : chart.lines) {
    if (line.curve->empty()) continue;
    frame.first = std::min(frame.first, static_cast<double>(line.curve->first_step()));
    frame.last = std::max(frame.last, static_cast<double>(line.curve->last_step()));
    frame.low = std::min(frame.low, line.curve->low());
    frame.high = std::max(frame.high, line.curve->high());
  }
  if (frame.first == frame.last) frame.last += 1;
  constexpr double kManyTimes = 30;
  frame.logarithmic =
      chart.may_be_logarithmic && frame.low > 0 && frame.high / frame.low > kManyTimes;
  if (frame.logarithmic) {
    frame.low /= 1.1;
    frame.high *= 1.1;
    return frame;
  }
  // Halves, as the difference of two large values may be beyond a double.
  const double half = frame.high / 2 - frame.low / 2;
  const double room = half > 0 ? 0.08 * half : std::max(1e-300, 0.05 * std::fabs(frame.high));
  const bool from_zero = frame.low >= 0 && frame.low < half;
  frame.low = from_zero ? 0 : frame.low - room;
  frame.high += room;
  if (!(frame.high > frame.low)) frame.high = frame.low + 1;
  return frame;
}

std::string point(double x, double y) {
  return coordinate(x) + "," + coordinate(y) + " ";
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor +
         "\">" + html_text(text) + "</text>";
}

/// "12k" of 12000.
std::string step_words(double step) {
  if (step >= 1e6) return number_words(step / 1e6, 3) + "M";
  return step >= 1e4 ? number_words(step / 1e3, 3) + "k" : number_words(step, 5);
}

/// As short as it can be: "1.04e30", "2.5e-5".
std::string tick_words(double value) {
  std::string words = number_words(value);
  const size_t power = words.find('e');
  if (power == words.npos) return words;
  size_t digits = power + 1;
  if (words[digits] == '+') words.erase(digits, 1);
  if (words[digits] == '-') ++digits;
  while (words[digits] == '0') words.erase(digits, 1);
  return words;
}

std::string axes(const Frame& frame) {
  std::string out = "<g class=\"grid\">", words = "<g class=\"ticks\">";
  const std::vector<double> values =
      frame.logarithmic ? power_ladder(frame.low, frame.high) : ladder(frame.low, frame.high, 5);
  for (const double value : values) {
    const std::string y = coordinate(frame.y(value));
    out += "<path d=\"M" + coordinate(kLeft) + " " + y + "H" + coordinate(kRight) + "\"/>";
    words += text_at(kLeft - 6, frame.y(value) + 4, "end", tick_words(value));
  }
  for (const double step : ladder(frame.first, frame.last, 5)) {
    if (step != std::floor(step)) continue;  // a run of few steps
    words += text_at(frame.x(step), kBottom + 18, "middle", step_words(step));
  }
  return out + "</g>" + words + "</g>";
}

std::string css_class(const char* name, const ChartLine& line) {
  return std::string("class=\"") + name + " c" + std::to_string(line.color % 8) +
         (line.faint ? " faint" : "") + "\"";
}

/// The extremes of each piece, there along the top and back along the bottom.
std::string band(const ChartLine& line, const Frame& frame) {
  std::string there, back;
  for (const CurvePiece& piece : line.curve->pieces()) {
    there += point(frame.x(piece.high_step), frame.y(piece.high));
  }
  const auto& pieces = line.curve->pieces();
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    back += point(frame.x(piece->low_step), frame.y(piece->low));
  }
  return "<polygon " + css_class("band", line) + " points=\"" + there + back + "\"/>";
}

std::string drawn(const ChartLine& line, const Frame& frame) {
  std::string out, points;
  const bool joined = line.curve->per_piece() > 1;
  if (joined) out += band(line, frame);
  for (const CurvePiece& piece : line.curve->pieces()) {
    const double mean = joined ? piece.sum / static_cast<double>(piece.count) : piece.last;
    // A sum may be rounded, or beyond a double.
    const double value = std::clamp(mean, piece.low, piece.high);
    points += point(frame.x(piece.last_step), frame.y(value));
    constexpr size_t kMostDots = 60;
    if (line.curve->pieces().size() > (line.dots ? kMostDots : 1)) continue;
    out += "<circle " + css_class("dot", line) + " cx=\"" + coordinate(frame.x(piece.last_step)) +
           "\" cy=\"" + coordinate(frame.y(value)) + "\" r=\"3\"><title>step " +
           std::to_string(piece.last_step) + ": " + number_words(value, 6) + "</title></circle>";
  }
  return out + "<polyline " + css_class("line", line) + " points=\"" + points + "\"/>";
}

std::string drawn_mark(const ChartMark& mark, const Frame& frame) {
  const auto step = static_cast<double>(mark.step);
  if (step < frame.first || step > frame.last) return "";
  return std::string("<path class=\"mark") + (mark.bad ? " bad" : "") + "\" d=\"M" +
         coordinate(frame.x(mark.step)) + " " + coordinate(kTop) + "V" + coordinate(kBottom) +
         "\"><title>" + html_text(mark.label) + "</title></path>";
}

std::string legend(const Chart& chart) {
  std::string out;
  for (const ChartLine& line : chart.lines) {
    if (line.curve->empty() || line.label.empty()) continue;
    out += "<span " + css_class("key", line) + "><i></i>" + html_text(line.label) + " <b>" +
           number_words(line.curve->last()) + "</b></span>";
  }
  return out;
}

std::string note(const Chart& chart, const Frame& frame) {
  int64_t most = 1, lost = 0;
  for (const ChartLine& line : chart.lines) {
    if (!line.curve->empty()) most = std::max(most, line.curve->per_piece());
    lost += line.curve->not_finite();
  }
  std::string out;
  if (most > 1) {
    out += "A point stands for up to " + std::to_string(most) +
           " values: the band spans the lowest and the highest, the line is the mean. ";
  }
  if (frame.logarithmic) out += "Logarithmic. ";
  if (lost > 0) out += number_words(static_cast<double>(lost)) + " values were not finite. ";
  return out.empty() ? out : "<p class=\"note\">" + out + "</p>";
}

}  // namespace

bool has_values(const Chart& chart) {
  return std::any_of(chart.lines.begin(), chart.lines.end(),
                     [](const ChartLine& line) { return !line.curve->empty(); });
}

std::string chart_figure(const Chart& chart) {
  if (!has_values(chart)) return "";
  const Frame frame = frame_of(chart);
  std::string out = "<figure class=\"chart\"><figcaption><h3>" + html_text(chart.title) + "</h3>" +
                    legend(chart) + "</figcaption>";
  out += "<svg viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) +
         "\" role=\"img\" aria-label=\"" + html_text(chart.title + " over " + chart.along) + "\">";
  out += axes(frame);
  for (const ChartLine& line : chart.lines) {
    if (!line.curve->empty()) out += drawn(line, frame);
  }
  for (const ChartMark& mark : chart.marks) out += drawn_mark(mark, frame);
  out += text_at(kLeft - 6, kBottom + 18, "end", chart.along);
  return out + "</svg>" + note(chart, frame) + "</figure>\n";
}

}  // namespace accel
