// Rendered digits: a realistic image task without a download.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/recipe/registry.h"
#include "data/datasets/image/glyph_strokes.h"
#include "data/datasets/synthetic.h"

namespace accel {
namespace {

constexpr int64_t kDigits = 10;

struct SyntheticGlyphsOptions {
  int64_t length = 10000;
  int64_t size = 28;
  double distortion = 1.0;
  double noise = 0.15;
};

/// A square grid of ink values in [0, 1].
class Canvas {
 public:
  Canvas(std::span<float> pixels, int64_t size) : pixels_(pixels), size_(size) {
    std::fill(pixels_.begin(), pixels_.end(), 0.0f);
  }

  /// Points in pixels; `radius` is half the pen's width.
  void draw_line(Point a, Point b, double radius) {
    const double reach = radius + 1;
    const int64_t left = clamped(std::min(a.x, b.x) - reach);
    const int64_t right = clamped(std::max(a.x, b.x) + reach);
    const int64_t bottom = clamped(std::max(a.y, b.y) + reach);
    for (int64_t y = clamped(std::min(a.y, b.y) - reach); y <= bottom; ++y) {
      for (int64_t x = left; x <= right; ++x) {
        const Point center = {static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
        // A ramp of one pixel antialiases the edge.
        const double ink = std::clamp(radius + 0.5 - distance(center, a, b), 0.0, 1.0);
        float& pixel = pixels_[static_cast<size_t>(y * size_ + x)];
        pixel = std::max(pixel, static_cast<float>(ink));
      }
    }
  }

 private:
  int64_t clamped(double at) const {
    return std::clamp(static_cast<int64_t>(std::floor(at)), int64_t{0}, size_ - 1);
  }

  static double distance(Point p, Point a, Point b) {
    const double dx = b.x - a.x, dy = b.y - a.y;
    const double square = dx * dx + dy * dy;
    const double along = square > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / square : 0;
    const double t = std::clamp(along, 0.0, 1.0);
    const double x = p.x - a.x - t * dx, y = p.y - a.y - t * dy;
    return std::sqrt(x * x + y * y);
  }

  std::span<float> pixels_;
  int64_t size_;
};

/// The handwriting of a sample: rotation, slant, scale, shift and noise.
class Hand {
 public:
  Hand(const SyntheticGlyphsOptions& options, SampleRng& rng)
      : rng_(rng), size_(static_cast<double>(options.size)), distortion_(options.distortion) {
    const double turn = spread(0.35);
    slant_ = spread(0.35);
    const double width = 0.5 * (1 + spread(0.3)), height = 0.68 * (1 + spread(0.25));
    across_ = {width * std::cos(turn), width * std::sin(turn)};
    down_ = {-height * std::sin(turn), height * std::cos(turn)};
    center_ = {0.5 + spread(0.1), 0.5 + spread(0.1)};
    radius_ = size_ * (0.045 + 0.02 * spread(1));
  }

  /// From glyph coordinates to pixels.
  Point place(Point p) const {
    const double y = p.y - 0.5;
    const double x = p.x - 0.5 - slant_ * y;
    return {size_ * (center_.x + x * across_.x + y * down_.x),
            size_ * (center_.y + x * across_.y + y * down_.y)};
  }

  Point wobble(Point p) { return {p.x + spread(0.06), p.y + spread(0.06)}; }
  double radius() const { return std::max(radius_, 0.5); }

 private:
  /// Uniform in (-most, most), scaled by the distortion.
  double spread(double most) { return distortion_ * most * (2 * rng_.uniform() - 1); }

  SampleRng& rng_;
  double size_;
  double distortion_;
  double slant_ = 0;
  Point across_, down_, center_;
  double radius_ = 0;
};

class SyntheticGlyphs final : public Dataset, public ClassLabels {
 public:
  static constexpr auto kName = "synthetic/glyphs";
  static constexpr auto kSummary = "Digits drawn with random distortions, in shades of grey.";

  static Schema<SyntheticGlyphsOptions> schema() {
    using Options = SyntheticGlyphsOptions;
    return Schema<Options>()
        .field("length", &Options::length, "Samples; every digit as often.", at_least<int64_t>(1))
        .field("size", &Options::size, "Height and width in pixels.", between<int64_t>(8, 1024))
        .field("distortion", &Options::distortion,
               "How far the writing strays from print: 0 not at all, 1 as by hand.",
               between(0.0, 2.0))
        .field("noise", &Options::noise, "Most that a pixel in [0, 1] is changed by at random.",
               between(0.0, 1.0));
  }

  SyntheticGlyphs(const SyntheticGlyphsOptions& options, const DatasetContext& context)
      : options_(options), context_(context) {}

  int64_t size() const override { return options_.length; }
  int64_t class_of(int64_t index) const override { return index % kDigits; }

  Sample sample(int64_t index) const override {
    SampleRng rng = synthetic_rng(context_, index);
    const int64_t digit = index % kDigits;
    Array image(DType::kF32, {1, options_.size, options_.size});
    draw(digit, rng, image.mutable_as<float>());
    for (float& pixel : image.mutable_as<float>()) {
      const double change = options_.noise * (2 * rng.uniform() - 1);
      pixel = std::clamp(pixel + static_cast<float>(change), 0.0f, 1.0f);
    }
    return {image, Array::label(digit)};
  }

  DataShape shape() const override {
    DataShape shape{.input = {1, options_.size, options_.size}, .target = {}, .classes = kDigits};
    for (int64_t digit = 0; digit < kDigits; ++digit) {
      shape.labels.push_back(std::to_string(digit));
    }
    return shape;
  }

  std::string fingerprint() const override {
    return synthetic_fingerprint<SyntheticGlyphs>(options_, context_);
  }

 private:
  void draw(int64_t digit, SampleRng& rng, std::span<float> pixels) const {
    Canvas canvas(pixels, options_.size);
    const std::vector<Glyph>& glyphs = glyphs_of(digit);
    Hand hand(options_, rng);
    Glyph glyph = glyphs[rng.below(glyphs.size())];
    for (Stroke& stroke : glyph) {
      for (Point& point : stroke.points) point = hand.wobble(point);
      const std::vector<Point> line = outline(stroke);
      for (size_t i = 1; i < line.size(); ++i) {
        canvas.draw_line(hand.place(line[i - 1]), hand.place(line[i]), hand.radius());
      }
    }
  }

  SyntheticGlyphsOptions options_;
  DatasetContext context_;
};

const Register<SyntheticGlyphs> synthetic_glyphs;

}  // namespace
}  // namespace accel
