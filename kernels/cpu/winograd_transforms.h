// Transforms of Winograd's algorithm in one dimension, over registers of any width.
#pragma once

#include "core/base/cpu_target.h"

namespace accel {

/// The transforms of one dimension of F(n, 3): y = B^T x, A^T x, A x, G x and G^T x.
template <int kOutputs>
struct WinogradTransform;

template <>
struct WinogradTransform<2> {
  template <typename Float>
  static ACCEL_PART_OF_LOOP void inputs(const Float* x, Float* y) {
    const Float x1 = x[1], x2 = x[2];
    y[0] = x[0] - x2;
    y[1] = x1 + x2;
    y[2] = x2 - x1;
    y[3] = x1 - x[3];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void outputs(const Float* x, Float* y) {
    const Float sum = x[1] + x[2], difference = x[1] - x[2];
    y[0] = x[0] + sum;
    y[1] = difference - x[3];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void output_gradients(const Float* x, Float* y) {
    const Float x0 = x[0], x1 = x[1];
    y[0] = x0;
    y[1] = x0 + x1;
    y[2] = x0 - x1;
    y[3] = -x1;
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void weights(const Float* x, Float* y) {
    const Float sum = (x[0] + x[2]) * 0.5F, half = x[1] * 0.5F;
    y[0] = x[0];
    y[1] = sum + half;
    y[2] = sum - half;
    y[3] = x[2];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void weight_gradients(const Float* x, Float* y) {
    const Float sum = (x[1] + x[2]) * 0.5F, difference = (x[1] - x[2]) * 0.5F;
    y[0] = x[0] + sum;
    y[1] = difference;
    y[2] = sum + x[3];
  }
};

/// Of the points 0, +-sqrt(1/2), +-sqrt(2) and infinity, whose rounding errors are a quarter of
/// those of 0, +-1, +-2 and infinity.
template <>
struct WinogradTransform<4> {
  static constexpr float kLow = 0.707106781F, kHigh = 1.41421356F;  // the positive points

  template <typename Float>
  static ACCEL_PART_OF_LOOP void inputs(const Float* x, Float* y) {
    const Float low = x[4] - 2.0F * x[2], low_odd = kLow * (x[3] - 2.0F * x[1]);
    const Float high = x[4] - 0.5F * x[2], high_odd = kHigh * (x[3] - 0.5F * x[1]);
    y[0] = x[0] + x[4] - 2.5F * x[2];
    y[1] = low + low_odd;
    y[2] = low - low_odd;
    y[3] = high + high_odd;
    y[4] = high - high_odd;
    y[5] = x[1] + x[5] - 2.5F * x[3];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void outputs(const Float* x, Float* y) {
    const Float low = x[1] + x[2], low_odd = kLow * (x[1] - x[2]);
    const Float high = x[3] + x[4], high_odd = kHigh * (x[3] - x[4]);
    y[0] = x[0] + low + high;
    y[1] = low_odd + high_odd;
    y[2] = 0.5F * low + 2.0F * high;
    y[3] = 0.5F * low_odd + 2.0F * high_odd + x[5];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void output_gradients(const Float* x, Float* y) {
    const Float low = x[0] + 0.5F * x[2], low_odd = kLow * (x[1] + 0.5F * x[3]);
    const Float high = x[0] + 2.0F * x[2], high_odd = kHigh * (x[1] + 2.0F * x[3]);
    y[0] = x[0];
    y[1] = low + low_odd;
    y[2] = low - low_odd;
    y[3] = high + high_odd;
    y[4] = high - high_odd;
    y[5] = x[3];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void weights(const Float* x, Float* y) {
    const Float low = (x[0] + 0.5F * x[2]) * (-2.0F / 3), low_odd = x[1] * (-2.0F / 3 * kLow);
    const Float high = (x[0] + 2.0F * x[2]) * (1.0F / 6), high_odd = x[1] * (1.0F / 6 * kHigh);
    y[0] = x[0];
    y[1] = low + low_odd;
    y[2] = low - low_odd;
    y[3] = high + high_odd;
    y[4] = high - high_odd;
    y[5] = x[2];
  }
  template <typename Float>
  static ACCEL_PART_OF_LOOP void weight_gradients(const Float* x, Float* y) {
    const Float low = (x[1] + x[2]) * (1.0F / 3), high = (x[3] + x[4]) * (1.0F / 3);
    y[0] = x[0] - 2.0F * low + 0.5F * high;
    y[1] = (x[3] - x[4]) * (1.0F / 6 * kHigh) - (x[1] - x[2]) * (2.0F / 3 * kLow);
    y[2] = high - low + x[5];
  }
};

}  // namespace accel
