#include "runner/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "runner/report/html.h"

namespace accel {
namespace {

CurvePiece merged_pieces(const CurvePiece& a, const CurvePiece& b) {
  CurvePiece out = b;
  if (a.low <= b.low) {
    out.low = a.low;
    out.low_step = a.low_step;
  }
  if (a.high >= b.high) {
    out.high = a.high;
    out.high_step = a.high_step;
  }
  out.sum = a.sum + b.sum;
  out.count = a.count + b.count;
  return out;
}

constexpr double kWidth = 480, kHeight = 226;
constexpr double kLeft = 62, kRight = 458, kTop = 10, kBottom = 202;

/// Maps values to coordinates.
struct Frame {
  double first = 0, last = 1, low = 0, high = 1;
  double last_step = 1;
  bool logarithmic = false;

  double x(double step) const { return kLeft + (kRight - kLeft) * (step - first) / (last - first); }
  double x(int64_t step) const { return x(static_cast<double>(step)); }
  double y(double value) const {
    const double height =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return kBottom - (kBottom - kTop) * height;
  }
};

/// From zero to beyond the only value, so that the axis shows its size and not a rounding error.
Frame frame_of_one_value(Frame frame) {
  constexpr double kRoom = 1.25, kLargest = 1e300;
  const double value = std::clamp(frame.high, -kLargest, kLargest);
  frame.low = std::min(0.0, kRoom * value);
  frame.high = std::max(0.0, kRoom * value);
  if (frame.low == frame.high) frame.high = 1;
  return frame;
}

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
  frame.last_step = frame.last;
  if (frame.first == frame.last) {  // the only step is in the middle
    frame.first -= 0.5;
    frame.last += 0.5;
  }
  constexpr double kManyTimes = 30;
  frame.logarithmic =
      chart.may_be_logarithmic && frame.low > 0 && frame.high / frame.low > kManyTimes;
  if (frame.logarithmic) {
    frame.low /= 1.1;
    frame.high *= 1.1;
    return frame;
  }
  if (frame.low == frame.high) return frame_of_one_value(frame);
  // Halved first: the difference of two large values may overflow.
  const double half = frame.high / 2 - frame.low / 2;
  const double room = 0.08 * half;
  const bool from_zero = frame.low >= 0 && frame.low < half;
  frame.low = from_zero ? 0 : frame.low - room;
  frame.high += room;
  if (!(frame.high > frame.low)) frame.high = frame.low + 1;  // half underflowed
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

/// The shortest form: "1.04e30", "2.5e-5".
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

/// Round steps and the last one; without those whose label would touch the last one's.
std::vector<double> step_ticks(const Frame& frame) {
  constexpr double kLabelWidth = 44;
  std::vector<double> ticks;
  for (const double step : ladder(frame.first, frame.last, 5)) {
    if (step != std::floor(step)) continue;  // in runs of few steps
    if (frame.x(frame.last_step) - frame.x(step) >= kLabelWidth) ticks.push_back(step);
  }
  ticks.push_back(frame.last_step);
  return ticks;
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
  for (const double step : step_ticks(frame)) {
    words += text_at(frame.x(step), kBottom + 18, "middle", step_words(step));
  }
  return out + "</g>" + words + "</g>";
}

std::string css_class(const char* name, const ChartLine& line) {
  return std::string("class=\"") + name + " c" + std::to_string(line.color % 8) +
         (line.faint ? " faint" : "") + "\"";
}

/// The polygon of the extremes: maxima forward, minima backward.
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
    // The sum may be rounded or overflow.
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

/// Step and value of the best value; none if the line does not mark it or has a single value.
std::optional<std::pair<int64_t, double>> best_of(const ChartLine& line) {
  if (line.best == BestValue::kNone || line.curve->low_step() == line.curve->high_step()) return {};
  if (line.best == BestValue::kLowest) return std::pair(line.curve->low_step(), line.curve->low());
  return std::pair(line.curve->high_step(), line.curve->high());
}

std::string drawn_best(const ChartLine& line, const Frame& frame) {
  const auto best = best_of(line);
  if (!best) return "";
  return "<circle " + css_class("best", line) + " cx=\"" + coordinate(frame.x(best->first)) +
         "\" cy=\"" + coordinate(frame.y(best->second)) + "\" r=\"5\"/>";
}

bool is_inside(const ChartMark& mark, const Frame& frame) {
  const auto step = static_cast<double>(mark.step);
  return step >= frame.first && step <= frame.last;
}

std::string drawn_mark(const ChartMark& mark, const Frame& frame) {
  if (!is_inside(mark, frame)) return "";
  return std::string("<path class=\"mark") + (mark.bad ? " bad" : "") + "\" d=\"M" +
         coordinate(frame.x(mark.step)) + " " + coordinate(kTop) + "V" + coordinate(kBottom) +
         "\"><title>" + html_text(mark.label) + "</title></path>";
}

/// One entry for the dashed lines and one for the solid ones, which are failures.
std::string mark_keys(const Chart& chart, const Frame& frame) {
  std::string out;
  for (const bool bad : {false, true}) {
    const ChartMark* first = nullptr;
    int others = -1;
    for (const ChartMark& mark : chart.marks) {
      if (mark.bad != bad || !is_inside(mark, frame)) continue;
      if (!first) first = &mark;
      ++others;
    }
    if (!first) continue;
    out += std::string("<span class=\"key mark-key") + (bad ? " bad" : "") + "\"><i></i>" +
           html_text(first->label) +
           (others > 0 ? " and " + std::to_string(others) + " more" : "") + "</span>";
  }
  return out;
}

std::string legend(const Chart& chart, const Frame& frame) {
  std::string out;
  for (const ChartLine& line : chart.lines) {
    if (line.curve->empty() || line.label.empty()) continue;
    out += "<span " + css_class("key", line) + "><i></i>" + html_text(line.label) + " <b>" +
           number_words(line.curve->last()) + "</b></span>";
  }
  for (const ChartLine& line : chart.lines) {
    const auto best = line.curve->empty() ? std::nullopt : best_of(line);
    if (!best) continue;
    out += "<span " + css_class("key best", line) + "><i></i>best <b>" +
           number_words(best->second) + "</b> at step " + std::to_string(best->first) + "</span>";
  }
  return out + mark_keys(chart, frame);
}

std::string note(const Chart& chart, const Frame& frame) {
  int64_t most = 1, lost = 0;
  for (const ChartLine& line : chart.lines) {
    if (!line.curve->empty()) most = std::max(most, line.curve->per_piece());
    lost += line.curve->not_finite();
  }
  std::string out;
  if (most > 1) {
    out += "A point represents up to " + std::to_string(most) +
           " values: the band spans the lowest and the highest, the line is the mean. ";
  }
  if (frame.logarithmic) out += "Logarithmic. ";
  if (lost > 0) out += number_words(static_cast<double>(lost)) + " values were not finite. ";
  return out.empty() ? out : "<p class=\"note\">" + out + "</p>";
}

}  // namespace

void Curve::add(int64_t step, double value) {
  if (!std::isfinite(value)) {
    if (not_finite_++ == 0) first_not_finite_ = step;
    return;
  }
  const CurvePiece one{step, value, step, value, step, value, value, 1};
  if (!pieces_.empty() && pieces_.back().count < per_piece_) {
    pieces_.back() = merged_pieces(pieces_.back(), one);
    return;
  }
  if (pieces_.size() == kMostPieces) {
    for (size_t i = 0; i < kMostPieces / 2; ++i) {
      pieces_[i] = merged_pieces(pieces_[2 * i], pieces_[2 * i + 1]);
    }
    pieces_.resize(kMostPieces / 2);
    per_piece_ *= 2;
  }
  pieces_.push_back(one);
}

const CurvePiece& Curve::lowest() const {
  return *std::min_element(pieces_.begin(), pieces_.end(),
                           [](const auto& a, const auto& b) { return a.low < b.low; });
}

const CurvePiece& Curve::highest() const {
  return *std::max_element(pieces_.begin(), pieces_.end(),
                           [](const auto& a, const auto& b) { return a.high < b.high; });
}

int64_t Curve::first_step() const {
  return std::min(pieces_.front().low_step, pieces_.front().high_step);
}

std::vector<double> ladder(double low, double high, int count) {
  const double span = high - low;
  if (!(span > 0) || !std::isfinite(span)) return {};
  const double rough = span / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double factor = rough / power;
  const double rung = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
  std::vector<double> out;
  const double first = std::ceil(low / rung);
  for (int i = 0; i <= 2 * count; ++i) {
    const double value = (first + i) * rung;
    if (value > high) break;
    out.push_back(value == 0 ? 0 : value);  // no "-0"
  }
  return out;
}

std::vector<double> power_ladder(double low, double high) {
  std::vector<double> powers, between;
  if (!(low > 0) || !(high > low) || !std::isfinite(high)) return {};
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  const int stride = 1 + (last - first) / 8;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, exponent);
      if (value < low || value > high) continue;
      between.push_back(value);
      if (factor == 1.0 && (exponent - first) % stride == 0) powers.push_back(value);
    }
  }
  return powers.size() < 2 ? between : powers;
}

bool has_values(const Chart& chart) {
  return std::any_of(chart.lines.begin(), chart.lines.end(),
                     [](const ChartLine& line) { return !line.curve->empty(); });
}

std::string chart_figure(const Chart& chart) {
  if (!has_values(chart)) return "";
  const Frame frame = frame_of(chart);
  std::string out = "<figure class=\"chart\"><figcaption><h3>" + html_text(chart.title) + "</h3>" +
                    legend(chart, frame) + "</figcaption>";
  out += "<svg viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) +
         "\" role=\"img\" aria-label=\"" + html_text(chart.title + " over " + chart.along) + "\">";
  out += axes(frame);
  for (const ChartLine& line : chart.lines) {
    if (!line.curve->empty()) out += drawn(line, frame) + drawn_best(line, frame);
  }
  for (const ChartMark& mark : chart.marks) out += drawn_mark(mark, frame);
  out += text_at(kLeft - 6, kBottom + 18, "end", chart.along);
  return out + "</svg>" + note(chart, frame) + "</figure>\n";
}

}  // namespace accel
