#include "kernels/few_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/cpu_target.h"
#include "kernels/choice.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/upcast.h"

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

/// How 4-bit codes are multiplied.
enum class CodeProducts {
  kDecoded,   ///< decoded first
  kOfOneRow,  ///< decoded in registers, by one row of x
  kOfTiles    ///< the same by several, whose even columns come first
};

/// Whether rows are whole blocks.
bool has_blocks(const StoredWeight& weight) {
  return weight.columns % kCodesPerBlock == 0;
}

CodeProducts code_products(const StoredWeight& weight, int64_t rows) {
  if (weight.type != StoredWeight::Type::k4Bit || !has_blocks(weight))
    return CodeProducts::kDecoded;
  if (cpu_target() == CpuTarget::kAvx512) return CodeProducts::kOfTiles;
  return rows == 1 && !weight.rounds && has_row_of_blocks() ? CodeProducts::kOfOneRow
                                                            : CodeProducts::kDecoded;
}

/// Whether the weight is multiplied by pairs of numbers in bfloat16.
bool has_pairs(const StoredWeight& weight) {
  const bool is_decoded = weight.type == StoredWeight::Type::k4Bit && !has_blocks(weight);
  const bool is_bfloat16 = weight.type == StoredWeight::Type::kBFloat16 || weight.rounds;
  return is_bfloat16 && !is_decoded && cpu_target() == CpuTarget::kAvx512 &&
         !upcasts(at::kBFloat16);
}

/// In the order of FewRowsCodes; x is contiguous.
at::Tensor even_columns_first(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const void* const from = x.const_data_ptr();
  void* const to = out.mutable_data_ptr();
  if (x.scalar_type() == at::kFloat) {
    even_columns_first_avx512(static_cast<const float*>(from), x.numel(), static_cast<float*>(to));
  } else {
    even_columns_first_avx512(static_cast<const uint16_t*>(from), x.numel(),
                              static_cast<uint16_t*>(to));
  }
  return out;
}

/// Rows of x with zeros behind them, in the type and order that the product takes.
struct PaddedRows {
  at::Tensor data;  ///< [rows, step]
  int64_t rows, step;
  StoredNumber type;
  CodeProducts products;

  PaddedRows(const at::Tensor& x, const StoredWeight& weight)
      : type(x.scalar_type() == at::kBFloat16 && has_pairs(weight) ? StoredNumber::kBFloat16
                                                                   : StoredNumber::kFloat32) {
    const int64_t columns = x.size(-1);
    const at::ScalarType wanted = type == StoredNumber::kFloat32 ? at::kFloat : at::kBFloat16;
    step = rounded_up(columns, kSumLanes);
    const at::Tensor flat = x.reshape({-1, columns});
    rows = flat.size(0);
    products = code_products(weight, rows);
    if (products == CodeProducts::kOfTiles) {
      data = even_columns_first(flat.to(wanted).contiguous());
      return;
    }
    if (step == columns && x.scalar_type() == wanted) {
      data = flat.contiguous();
      return;
    }
    data = at::zeros({rows, step}, flat.options().dtype(wanted));
    data.narrow(1, 0, columns).copy_(flat);
  }
};

/// Most rows of x times columns of one call: with AVX2 they stay in the first cache, beside decoded
/// weights. With AVX-512 they may come from the second, and fewer calls are faster.
int64_t most_numbers() {
  return cpu_target() == CpuTarget::kAvx512 ? 16384 : 4096;
}

constexpr int64_t kBytesAhead = 4096;  // prefetch distance

/// Computes rows of a weight in one thread, kWeightRows at a time.
class WeightRows {
 public:
  WeightRows(const StoredWeight& weight, const PaddedRows& x, float* y)
      : weight_(weight),
        rows_(x.rows),
        step_(x.step),
        x_(static_cast<const char*>(x.data.const_data_ptr())),
        type_of_x_(x.type),
        y_(y),
        columns_of_call_(std::clamp(most_numbers() / rows_ / kCodesPerBlock * kCodesPerBlock,
                                    kCodesPerBlock, kMostColumns)),
        products_of_codes_(x.products),
        sums_(static_cast<size_t>(kWeightRows * rows_ * kSumLanes)),
        products_(static_cast<size_t>(kWeightRows * rows_)) {
    const auto size = static_cast<size_t>(kWeightRows);
    if (weight.type == StoredWeight::Type::kInt8) scales_.resize(size);
    if (weight.type != StoredWeight::Type::k4Bit) return;
    scales_.resize(static_cast<size_t>(weight.columns / kCodesPerBlock + 2) * size);
    if (products_of_codes_ == CodeProducts::kDecoded) {
      decoded_.resize(static_cast<size_t>(columns_of_call_) * size);
    }
  }

  /// Rows a quarter apart, so that memory is read at kWeightRows places in sequence.
  void compute(int64_t first, int64_t end) {
    count_ = kWeightRows;
    stride_ = (end - first) / kWeightRows;
    for (int64_t i = 0; i < stride_; ++i) {
      first_ = first + i;
      compute_rows();
    }
    first_ = first + stride_ * kWeightRows;
    count_ = end - first_;
    stride_ = 1;
    if (count_ > 0) compute_rows();
  }

 private:
  void compute_rows() {
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    read_scales();
    if (products_of_codes_ == CodeProducts::kOfOneRow) {
      for (int64_t n = 0; n < count_; ++n) add_codes(n);
    } else {
      for (int64_t column = 0; column < weight_.columns; column += columns_of_call_) {
        const int64_t count = std::min(columns_of_call_, weight_.columns - column);
        if (products_of_codes_ == CodeProducts::kOfTiles) {
          add_blocks(column, count);
        } else {
          add_columns(column, count);
        }
      }
    }
    const bool has_factors = weight_.type == StoredWeight::Type::kInt8 && !weight_.rounds;
    sum_lanes(sums_.data(), count_ * rows_, products_.data());
    for (int64_t n = 0; n < count_; ++n) {
      const float factor = has_factors ? scales_[static_cast<size_t>(n)] : 1.0F;
      for (int64_t row = 0; row < rows_; ++row) {
        y_[row * weight_.rows + row_at(n)] =
            products_[static_cast<size_t>(n * rows_ + row)] * factor;
      }
    }
  }

  static size_t lanes(int64_t sum) { return static_cast<size_t>(sum * kSumLanes); }

  int64_t row_at(int64_t n) const { return first_ + n * stride_; }
  int64_t blocks_of_row() const { return weight_.columns / kCodesPerBlock + 2; }
  /// The block of a row's first element.
  int64_t first_block(int64_t n) const { return row_at(n) * weight_.columns / kCodesPerBlock; }

  /// The scales of a row's blocks, of 4 bits.
  const float* scales_of(int64_t n) const {
    return weight_.block_scales != nullptr ? weight_.block_scales + first_block(n)
                                           : &scales_[static_cast<size_t>(n * blocks_of_row())];
  }

  void read_scales() {
    if (weight_.type == StoredWeight::Type::kInt8) {
      for (int64_t n = 0; n < count_; ++n) {
        weight_.scales(row_at(n), 1, &scales_[static_cast<size_t>(n)]);
      }
    }
    if (weight_.type != StoredWeight::Type::k4Bit || weight_.block_scales != nullptr) return;
    for (int64_t n = 0; n < count_; ++n) {
      const int64_t end = (row_at(n) + 1) * weight_.columns;
      const int64_t blocks = rounded_up(end, kCodesPerBlock) / kCodesPerBlock - first_block(n);
      weight_.scales(first_block(n), blocks, &scales_[static_cast<size_t>(n * blocks_of_row())]);
    }
  }

  /// A row of x by one of the weight, whose codes are decoded in registers.
  void add_codes(int64_t n) {
    const auto* const codes = static_cast<const uint8_t*>(weight_.data);
    add_row_of_blocks({codes + row_at(n) * weight_.columns / 2, scales_of(n), weight_.table},
                      reinterpret_cast<const float*>(x_), weight_.columns / kCodesPerBlock,
                      &sums_[lanes(n)]);
  }

  void add_blocks(int64_t column, int64_t count) {
    // Absent rows repeat the first, and their sums are not read.
    std::array<const uint8_t*, kWeightRows> codes;
    std::array<const float*, kWeightRows> scales;
    for (int64_t i = 0; i < kWeightRows; ++i) {
      const int64_t n = i < count_ ? i : 0;
      const int64_t element = row_at(n) * weight_.columns + column;
      codes[static_cast<size_t>(i)] = static_cast<const uint8_t*>(weight_.data) + element / 2;
      scales[static_cast<size_t>(i)] = scales_of(n) + column / kCodesPerBlock;
    }
    few_rows_codes_avx512({.x = x_ + column * bytes_of(type_of_x_),
                           .x_type = type_of_x_,
                           .rows = rows_,
                           .x_step = step_,
                           .codes = codes.data(),
                           .scales = scales.data(),
                           .table = weight_.table,
                           .blocks = count / kCodesPerBlock,
                           .ahead = kBytesAhead / 2,
                           .rounds = weight_.rounds},
                          sums_.data());
  }

  const void* numbers_at(int64_t n, int64_t column, int64_t count) {
    const int64_t element = row_at(n) * weight_.columns + column;
    if (weight_.type != StoredWeight::Type::k4Bit) {
      return static_cast<const char*>(weight_.data) + element * bytes_of(number_of(weight_.type));
    }
    float* const to = &decoded_[static_cast<size_t>(n * columns_of_call_)];
    const float* const scales = scales_of(n) + element / kCodesPerBlock - first_block(n);
    decode_4bit({static_cast<const uint8_t*>(weight_.data), scales, weight_.table}, element,
                element + count, to);
    return to;
  }

  void add_columns(int64_t column, int64_t count) {
    // Absent rows repeat the first, and their sums are not read.
    std::array<const void*, kWeightRows> rows;
    for (int64_t n = 0; n < kWeightRows; ++n) {
      rows[static_cast<size_t>(n)] = n < count_ ? numbers_at(n, column, count) : rows[0];
    }
    few_rows_cpu({.x = x_ + column * bytes_of(type_of_x_),
                  .x_type = type_of_x_,
                  .rows = rows_,
                  .x_step = step_,
                  .type = number_of(weight_.type),
                  .rows_of_weight = rows.data(),
                  .scales = scales_.data(),
                  .count = count,
                  .ahead = weight_.type == StoredWeight::Type::k4Bit ? 0 : kBytesAhead,
                  .rounds = weight_.rounds},
                 sums_.data());
  }

  const StoredWeight& weight_;
  int64_t rows_, step_;
  const char* x_;
  StoredNumber type_of_x_;
  float* y_;
  int64_t columns_of_call_;
  CodeProducts products_of_codes_;
  std::vector<float> sums_, products_, scales_, decoded_;
  int64_t first_ = 0, stride_ = 1, count_ = 0;  ///< rows of the weight
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
  const PaddedRows rows(x, weight);
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
