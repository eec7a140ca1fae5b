#include "kernels/few_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/choice.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

int64_t rounded_up(int64_t count, int64_t to) {
  return (count + to - 1) / to * to;
}

StoredNumber number_of(StoredWeight::Type type) {
  switch (type) {
    case StoredWeight::Type::kBFloat16:
      return StoredNumber::kBFloat16;
    case StoredWeight::Type::kInt8:
      return StoredNumber::kInt8;
    default:
      return StoredNumber::kFloat32;  // 4 bits are decoded first
  }
}

int64_t bytes_of(StoredNumber number) {
  return number == StoredNumber::kFloat32 ? 4 : number == StoredNumber::kBFloat16 ? 2 : 1;
}

float sum_of(const float* lanes) {
  std::array<float, kSumLanes> sums;
  std::copy_n(lanes, kSumLanes, sums.begin());
  for (size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

/// Float32 rows of x with zeros behind them.
struct PaddedRows {
  at::Tensor data;  ///< [rows, step]
  int64_t rows, step;

  explicit PaddedRows(const at::Tensor& x) {
    const int64_t columns = x.size(-1);
    step = rounded_up(columns, kSumLanes);
    const at::Tensor flat = x.reshape({-1, columns});
    rows = flat.size(0);
    if (step == columns && x.scalar_type() == at::kFloat) {
      data = flat.contiguous();
      return;
    }
    data = at::zeros({rows, step}, flat.options().dtype(at::kFloat));
    data.narrow(1, 0, columns).copy_(flat);
  }
};

/// Computes rows of a weight in one thread, kWeightRows at a time.
class WeightRows {
 public:
  WeightRows(const StoredWeight& weight, const PaddedRows& x, float* y)
      : weight_(weight),
        rows_(x.rows),
        step_(x.step),
        x_(x.data.const_data_ptr<float>()),
        y_(y),
        columns_of_call_(std::clamp(kMostNumbers / rows_ / kCodesPerBlock * kCodesPerBlock,
                                    kCodesPerBlock, kMostColumns)),
        multiplies_codes_(weight.type == StoredWeight::Type::k4Bit && x.rows == 1 &&
                          weight.columns % kCodesPerBlock == 0 && !weight.rounds &&
                          has_row_of_blocks()),
        sums_(static_cast<size_t>(kWeightRows * rows_ * kSumLanes)) {
    const auto size = static_cast<size_t>(kWeightRows);
    if (weight.type == StoredWeight::Type::kInt8) scales_.resize(size);
    if (weight.type != StoredWeight::Type::k4Bit) return;
    scales_.resize(static_cast<size_t>(weight.columns / kCodesPerBlock + 2) * size);
    decoded_.resize(static_cast<size_t>(columns_of_call_) * size);
  }

  void compute(int64_t first, int64_t end) {
    for (int64_t row = first; row < end; row += kWeightRows) {
      count_ = std::min(kWeightRows, end - row);
      first_ = row;
      compute_rows();
    }
  }

 private:
  void compute_rows() {
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    read_scales();
    if (multiplies_codes_) {
      for (int64_t n = 0; n < count_; ++n) add_codes(n);
    } else {
      for (int64_t column = 0; column < weight_.columns; column += columns_of_call_) {
        add_columns(column, std::min(columns_of_call_, weight_.columns - column));
      }
    }
    const bool has_factors = weight_.type == StoredWeight::Type::kInt8 && !weight_.rounds;
    for (int64_t n = 0; n < count_; ++n) {
      const float factor = has_factors ? scales_[static_cast<size_t>(n)] : 1.0F;
      for (int64_t row = 0; row < rows_; ++row) {
        y_[row * weight_.rows + first_ + n] = sum_of(&sums_[lanes(n * rows_ + row)]) * factor;
      }
    }
  }

  static size_t lanes(int64_t sum) { return static_cast<size_t>(sum * kSumLanes); }

  int64_t blocks_of_row() const { return weight_.columns / kCodesPerBlock + 2; }
  /// The block of a row's first element.
  int64_t first_block(int64_t n) const { return (first_ + n) * weight_.columns / kCodesPerBlock; }

  void read_scales() {
    if (weight_.type == StoredWeight::Type::kInt8) {
      weight_.scales(first_, count_, scales_.data());
    }
    if (weight_.type != StoredWeight::Type::k4Bit) return;
    for (int64_t n = 0; n < count_; ++n) {
      const int64_t end = (first_ + n + 1) * weight_.columns;
      const int64_t blocks = rounded_up(end, kCodesPerBlock) / kCodesPerBlock - first_block(n);
      weight_.scales(first_block(n), blocks, &scales_[static_cast<size_t>(n * blocks_of_row())]);
    }
  }

  /// A row of x by one of the weight, whose codes are decoded in registers.
  void add_codes(int64_t n) {
    const auto* const codes = static_cast<const uint8_t*>(weight_.data);
    add_row_of_blocks({codes + (first_ + n) * weight_.columns / 2,
                       &scales_[static_cast<size_t>(n * blocks_of_row())], weight_.table},
                      x_, weight_.columns / kCodesPerBlock, &sums_[lanes(n)]);
  }

  const void* numbers_at(int64_t n, int64_t column, int64_t count) {
    const int64_t element = (first_ + n) * weight_.columns + column;
    if (weight_.type != StoredWeight::Type::k4Bit) {
      return static_cast<const char*>(weight_.data) + element * bytes_of(number_of(weight_.type));
    }
    float* const to = &decoded_[static_cast<size_t>(n * columns_of_call_)];
    const int64_t scale = n * blocks_of_row() + element / kCodesPerBlock - first_block(n);
    decode_4bit({static_cast<const uint8_t*>(weight_.data), &scales_[static_cast<size_t>(scale)],
                 weight_.table},
                element, element + count, to);
    return to;
  }

  void add_columns(int64_t column, int64_t count) {
    // Absent rows repeat the first, and their sums are not read.
    std::array<const void*, kWeightRows> rows;
    for (int64_t n = 0; n < kWeightRows; ++n) {
      rows[static_cast<size_t>(n)] = n < count_ ? numbers_at(n, column, count) : rows[0];
    }
    const StoredNumber type = number_of(weight_.type);
    const int64_t to_next_rows = kWeightRows * weight_.columns - column;
    const int64_t ahead = column + count < weight_.columns ? count : to_next_rows;
    few_rows_cpu({.x = x_ + column,
                  .rows = rows_,
                  .x_step = step_,
                  .type = type,
                  .rows_of_weight = rows.data(),
                  .scales = scales_.data(),
                  .count = count,
                  .ahead = ahead * bytes_of(type),
                  .rounds = weight_.rounds},
                 sums_.data());
  }

  const StoredWeight& weight_;
  int64_t rows_, step_;
  const float* x_;
  float* y_;
  int64_t columns_of_call_;
  bool multiplies_codes_;
  std::vector<float> sums_, scales_, decoded_;
  int64_t first_ = 0, count_ = 0;  ///< rows of the weight
};

constexpr int64_t kLeastNumbers = 65536;  // of a thread

}  // namespace

bool has_few_rows(const at::Tensor& x) {
  if (!FewRowsScope::is_active() || kernels() != Kernels::kFused || !x.is_cpu()) return false;
  const bool is_number = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  return is_number && !at::GradMode::is_enabled() && x.numel() > 0 &&
         x.numel() <= kFewRows * x.size(-1);
}

StoredWeight stored_weight(const at::Tensor& weight) {
  return {.type = weight.scalar_type() == at::kFloat ? StoredWeight::Type::kFloat32
                                                     : StoredWeight::Type::kBFloat16,
          .data = weight.const_data_ptr(),
          .rows = weight.size(0),
          .columns = weight.size(1)};
}

at::Tensor few_rows_product(const at::Tensor& x, const StoredWeight& weight) {
  const PaddedRows rows(x);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.rows;
  at::Tensor y = at::empty(sizes, x.options().dtype(at::kFloat));
  float* const to = y.mutable_data_ptr<float>();
  const int64_t grain =
      rounded_up((kLeastNumbers + weight.columns - 1) / weight.columns, kWeightRows);
  for_each_part(weight.rows, grain, [&](int64_t begin, int64_t end) {
    WeightRows(weight, rows, to).compute(begin, end);
  });
  return y;
}

}  // namespace accel
