#include "runner/report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace accel::chart_test {
namespace {

Curve curve_of(const std::vector<double>& values) {
  Curve curve;
  for (size_t i = 0; i < values.size(); ++i) curve.add(static_cast<int64_t>(i) + 1, values[i]);
  return curve;
}

std::string drawing(const Curve& curve, bool may_be_logarithmic = false) {
  return chart_figure({.title = "Loss",
                       .lines = {{"each step", &curve, 0, false, false}},
                       .marks = {},
                       .may_be_logarithmic = may_be_logarithmic});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(ChartTest, LineGoesFromCornerToCorner) {
  const Curve curve = curve_of({0, 1, 2});
  // The axis begins at 0 and leaves 4 % above the highest.
  EXPECT_TRUE(
      has(drawing(curve), "<polyline class=\"line c0\" points=\"62,202 260,109.7 458,17.4 \"/>"))
      << drawing(curve);
}

TEST(ChartTest, NothingIsDrawnOfNothing) {
  EXPECT_EQ(drawing(Curve()), "");
}

TEST(ChartTest, OneValueIsADot) {
  EXPECT_TRUE(has(drawing(curve_of({3})), "<circle class=\"dot c0\""));
}

TEST(ChartTest, JoinedValuesAreABandAndTheNoteSaysSo) {
  Curve curve;
  for (int64_t step = 1; step <= 5000; ++step) curve.add(step, step % 2 == 0 ? 1 : 3);
  const std::string figure = drawing(curve);
  EXPECT_TRUE(has(figure, "<polygon class=\"band c0\""));
  EXPECT_TRUE(has(figure,
                  "A point represents up to 8 values: the band spans the lowest and the "
                  "highest, the line is the mean."));
  EXPECT_LT(figure.size(), 40000u);
}

TEST(ChartTest, PowersOfTenAreShort) {
  EXPECT_TRUE(has(drawing(curve_of({1e30})), ">1e30</text>"));
  EXPECT_TRUE(has(drawing(curve_of({2.5e-5, 2.6e-5})), ">2.55e-5</text>"))
      << drawing(curve_of({2.5e-5, 2.6e-5}));
}

TEST(ChartTest, WideSpansMayBeLogarithmic) {
  const Curve wide = curve_of({1000, 1}), narrow = curve_of({20, 1}),
              negative = curve_of({1000, -1}), zero = curve_of({1000, 0});
  EXPECT_TRUE(has(drawing(wide, true), "Logarithmic."));
  EXPECT_FALSE(has(drawing(wide, false), "Logarithmic."));
  EXPECT_FALSE(has(drawing(narrow, true), "Logarithmic."));
  EXPECT_FALSE(has(drawing(negative, true), "Logarithmic."));
  EXPECT_FALSE(has(drawing(zero, true), "Logarithmic."));
}

TEST(ChartTest, ExtremeValuesStayInTheDrawing) {
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const std::vector<double>& values :
       {std::vector<double>{-kMost, kMost}, {kMost, kMost}, {5e-324, 1e-320}, {0, 0}, {-3, -3}}) {
    for (const bool logarithmic : {false, true}) {
      const std::string figure = drawing(curve_of(values), logarithmic);
      EXPECT_FALSE(has(figure, "nan") || has(figure, "inf")) << figure;
    }
  }
}

TEST(ChartTest, TheLastStepHasATick) {
  std::vector<double> values(126, 1.0);
  values[0] = 2;
  const std::string figure = drawing(curve_of(values));
  EXPECT_TRUE(has(figure, "<text x=\"458\" y=\"220\" text-anchor=\"middle\">126</text>")) << figure;
  EXPECT_TRUE(has(figure, "text-anchor=\"middle\">100</text>")) << figure;
  EXPECT_FALSE(has(figure, "text-anchor=\"middle\">120</text>")) << "it would touch 126";
}

TEST(ChartTest, TheAxisOfEqualValuesBeginsAtZero) {
  for (const auto& [value, tick] : {std::pair{5.5, "6"}, std::pair{-5.5, "-6"}}) {
    const std::string figure = drawing(curve_of({value, value}));
    EXPECT_TRUE(has(figure, "text-anchor=\"end\">0</text>")) << figure;
    EXPECT_TRUE(has(figure, std::string("text-anchor=\"end\">") + tick + "</text>")) << figure;
  }
}

TEST(ChartTest, ASingleStepIsInTheMiddleWithItsTick) {
  Curve curve;
  curve.add(63, 5);
  const std::string figure = drawing(curve);
  EXPECT_TRUE(has(figure, "<circle class=\"dot c0\" cx=\"260\"")) << figure;
  EXPECT_TRUE(has(figure, "<text x=\"260\" y=\"220\" text-anchor=\"middle\">63</text>")) << figure;
}

TEST(ChartTest, LinesOfEventsAreInTheLegend) {
  const Curve curve = curve_of({1, 2, 3, 4});
  const auto figure = [&](std::vector<ChartMark> marks) {
    return chart_figure(
        {.title = "Loss", .lines = {{"", &curve, 0, false, false}}, .marks = std::move(marks)});
  };
  EXPECT_FALSE(has(figure({}), "mark-key"));
  EXPECT_FALSE(has(figure({{9, "resume at step 9", false}}), "mark-key")) << "it is not drawn";
  EXPECT_TRUE(has(figure({{2, "resume at step 2", false}}),
                  "<span class=\"key mark-key\"><i></i>resume at step 2</span></figcaption>"));
  const std::string many = figure({{2, "resume at step 2", false},
                                   {3, "interrupted at step 3", false},
                                   {4, "failed at step 4", true}});
  EXPECT_TRUE(has(many,
                  "<span class=\"key mark-key\"><i></i>resume at step 2 and 1 more</span>"
                  "<span class=\"key mark-key bad\"><i></i>failed at step 4</span>"))
      << many;
}

TEST(ChartTest, TheBestValueIsMarked) {
  const Curve curve = curve_of({0, 3, 1});
  const auto figure = [](const Curve& drawn, BestValue best) {
    return chart_figure({.title = "eval/f1", .lines = {{"", &drawn, 1, false, true, best}}});
  };
  EXPECT_FALSE(has(figure(curve, BestValue::kNone), "best"));
  const std::string highest = figure(curve, BestValue::kHighest);
  EXPECT_TRUE(has(highest, "<circle class=\"best c1\" cx=\"260\" cy=\"17.4\" r=\"5\"/>"))
      << highest;
  EXPECT_TRUE(has(highest, "<span class=\"key best c1\"><i></i>best <b>3</b> at step 2</span>"));
  EXPECT_TRUE(has(figure(curve, BestValue::kLowest), "best <b>0</b> at step 1</span>"));
  EXPECT_FALSE(has(figure(curve_of({2}), BestValue::kLowest), "best")) << "there is no other value";
}

TEST(ChartTest, LostValuesAreNoted) {
  EXPECT_TRUE(has(drawing(curve_of({1, NAN, 2})), "1 values were not finite."));
}

TEST(ChartTest, NamesAreEscaped) {
  const Curve curve = curve_of({1, 2});
  const std::string figure = chart_figure(
      {.title = "<b>", .lines = {{"<i>", &curve, 0, false, false}}, .marks = {{2, "<u>", true}}});
  EXPECT_FALSE(has(figure, "<b>&") || has(figure, "<i>&") || has(figure, "<u>")) << figure;
  EXPECT_TRUE(has(figure, "&lt;b&gt; over step\""));
  EXPECT_TRUE(has(figure, "</i>&lt;i&gt; <b>2</b>"));
  EXPECT_TRUE(has(figure, "<path class=\"mark bad\" d=\"M458 10V202\"><title>&lt;u&gt;</title>"));
}

}  // namespace
}  // namespace accel::chart_test
