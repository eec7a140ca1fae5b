#include "kernels/cpu/panel_product.h"

#include <algorithm>

#include "core/base/cpu_target.h"
#include "kernels/cpu/registers.h"

namespace accel {
namespace {

/// Vectors of a row of a tile and of a panel, and rows of a tile by its vectors: as many sums as
/// there are registers, beside a row of the panel and an element of a.
template <int kBytes>
struct TileSizes {
  static constexpr int64_t kWidth = kBytes / sizeof(float);
  static constexpr int kVectors = kBytes == 64 ? 4 : 2;
  static constexpr int64_t kColumns = kVectors * kWidth;

  static constexpr int rows(int vectors) {
    constexpr int kWide[] = {12, 12, 8, 6}, kNarrow[] = {8, 6};
    return kBytes == 64 ? kWide[vectors - 1] : kNarrow[vectors - 1];
  }
};

/// Rows that sums are added to, with stride `step`: those of the target, or a bias without a
/// stride.
struct AddedRows {
  const float* data;  ///< null: none
  int64_t step;
};

/// The operands of a tile. Element (i, k) of a is at `a + i * a_step + k`, or turned at
/// `a + i + k * a_step`.
struct TileCall {
  const float* a;
  int64_t a_step;
  const float* panel;
  int64_t inner;
  float* to;
  int64_t step;
  AddedRows added;
};

constexpr int64_t kPrefetched = 4;  // rows of a turned a ahead, which are far apart

/// The sums of kRows rows by kVectors vectors of columns.
template <int kBytes, int kRows, int kVectors, bool kTurned>
ACCEL_PART_OF_LOOP void tile(const TileCall& of) {
  using Float = typename Register<kBytes>::Float;
  using Sizes = TileSizes<kBytes>;
  Float sums[kRows][kVectors] = {};
  const float *a = of.a, *panel = of.panel;
  const int64_t step = of.a_step;
  for (int64_t k = 0; k < of.inner; ++k) {
    if (kTurned) __builtin_prefetch(a + kPrefetched * step);
    Float b[kVectors];
    unrolled<kVectors>([&](int j) __attribute__((always_inline)) {
      load(panel + j * Sizes::kWidth, b[j]);
    });
    unrolled<kRows>([&](int i) __attribute__((always_inline)) {
      const float x = kTurned ? a[i] : a[i * step];
      unrolled<kVectors>([&](int j) __attribute__((always_inline)) { sums[i][j] += x * b[j]; });
    });
    panel += Sizes::kColumns;
    a += kTurned ? step : 1;
  }
  unrolled<kRows>([&](int i) __attribute__((always_inline)) {
    unrolled<kVectors>([&](int j) __attribute__((always_inline)) {
      if (of.added.data != nullptr) {
        Float added;
        load(of.added.data + i * of.added.step + j * Sizes::kWidth, added);
        sums[i][j] += added;
      }
      store(sums[i][j], of.to + i * of.step + j * Sizes::kWidth);
    });
  });
}

/// A tile whose last vector has columns behind those of the target.
template <int kBytes, int kRows, int kVectors, bool kTurned>
ACCEL_PART_OF_LOOP void tile_of_columns(const TileCall& of, int64_t columns) {
  constexpr int64_t kWhole = kVectors * TileSizes<kBytes>::kWidth;
  if (columns == kWhole) return tile<kBytes, kRows, kVectors, kTurned>(of);
  float sums[kRows * kWhole];
  tile<kBytes, kRows, kVectors, kTurned>(
      {of.a, of.a_step, of.panel, of.inner, sums, kWhole, {nullptr, 0}});
  for (int64_t i = 0; i < kRows; ++i) {
    const float* const added = of.added.data;
    for (int64_t j = 0; j < columns; ++j) {
      const float sum = sums[i * kWhole + j];
      of.to[i * of.step + j] = added != nullptr ? sum + added[i * of.added.step + j] : sum;
    }
  }
}

/// Tiles of kRows rows from the one that `of` begins at; `rows` are left, and fewer afterwards.
template <int kBytes, int kRows, int kVectors, bool kTurned>
ACCEL_PART_OF_LOOP void tiles(TileCall& of, int64_t& rows, int64_t columns) {
  for (; rows >= kRows; rows -= kRows) {
    tile_of_columns<kBytes, kRows, kVectors, kTurned>(of, columns);
    of.a += kRows * (kTurned ? 1 : of.a_step);
    of.to += kRows * of.step;
    if (of.added.data != nullptr) of.added.data += kRows * of.added.step;
  }
}

template <int kBytes, int kVectors, bool kTurned>
ACCEL_PART_OF_LOOP void rows_of_panel(TileCall of, int64_t rows, int64_t columns) {
  tiles<kBytes, TileSizes<kBytes>::rows(kVectors), kVectors, kTurned>(of, rows, columns);
  tiles<kBytes, 4, kVectors, kTurned>(of, rows, columns);
  tiles<kBytes, 1, kVectors, kTurned>(of, rows, columns);
}

template <int kBytes, bool kTurned>
ACCEL_PART_OF_LOOP void panel_of_vectors(const TileCall& of, int64_t rows, int64_t columns) {
  using Sizes = TileSizes<kBytes>;
  const int64_t vectors = (columns + Sizes::kWidth - 1) / Sizes::kWidth;
  if constexpr (Sizes::kVectors == 4) {
    if (vectors == 4) return rows_of_panel<kBytes, 4, kTurned>(of, rows, columns);
    if (vectors == 3) return rows_of_panel<kBytes, 3, kTurned>(of, rows, columns);
  }
  if (vectors == 2) return rows_of_panel<kBytes, 2, kTurned>(of, rows, columns);
  rows_of_panel<kBytes, 1, kTurned>(of, rows, columns);
}

constexpr int64_t kRowsAtOnce = 96;  // of a, which stay in the second cache for all panels

template <int kBytes, bool kTurned>
ACCEL_PART_OF_LOOP void product(const MatrixPart& a, const PackedMatrix& b,
                                const ProductShape& shape, const ProductTarget& to) {
  constexpr int64_t kColumns = TileSizes<kBytes>::kColumns;
  const AddedRows added = to.add ? AddedRows{to.data, to.step} : AddedRows{b.bias, 0};
  for (int64_t first = 0; first < shape.rows; first += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, shape.rows - first);
    const float* const from = a.data + first * (kTurned ? 1 : a.step);
    for (int64_t column = 0; column < shape.columns; column += kColumns) {
      const float* const behind =
          added.data != nullptr ? added.data + first * added.step + column : nullptr;
      panel_of_vectors<kBytes, kTurned>({from,
                                         a.step,
                                         b.panels + column * shape.inner,
                                         shape.inner,
                                         to.data + first * to.step + column,
                                         to.step,
                                         {behind, added.step}},
                                        rows, std::min(kColumns, shape.columns - column));
    }
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void any_product(const MatrixPart& a, const PackedMatrix& b,
                                    const ProductShape& shape, const ProductTarget& to) {
  a.turned ? product<kBytes, true>(a, b, shape, to) : product<kBytes, false>(a, b, shape, to);
}

/// A panel of `columns` columns of b, row by row, each kColumns long. The last vector ends with
/// zeros; those behind it are not read.
template <int kBytes>
ACCEL_PART_OF_LOOP void pack_rows(const MatrixPart& b, int64_t inner, int64_t columns, float* to) {
  using Float = typename Register<kBytes>::Float;
  using Sizes = TileSizes<kBytes>;
  const int64_t whole = columns / Sizes::kWidth * Sizes::kWidth;
  for (int64_t k = 0; k < inner; ++k, to += Sizes::kColumns) {
    const float* const row = b.data + k * b.step;
    for (int64_t j = 0; j < whole; j += Sizes::kWidth) {
      Float numbers;
      load(row + j, numbers);
      store(numbers, to + j);
    }
    if (whole == columns) continue;
    Float last = {};
    for (int64_t j = whole; j < columns; ++j) last[j - whole] = row[j];
    store(last, to + whole);
  }
}

/// The same of a turned b, in squares.
template <int kBytes>
ACCEL_PART_OF_LOOP void pack_turned(const MatrixPart& b, int64_t inner, int64_t columns,
                                    float* to) {
  constexpr int64_t kColumns = TileSizes<kBytes>::kColumns;
  if (columns % TileSizes<kBytes>::kWidth != 0) std::fill_n(to, inner * kColumns, 0.0F);
  for (int64_t j = 0; j < columns; j += kEdge) {
    const float* const from = b.data + j * b.step;
    const int64_t width = std::min(kEdge, columns - j);
    int64_t k = 0;
    for (; width == kEdge && k + kEdge <= inner; k += kEdge) {
      transpose(
          [&](int i) __attribute__((always_inline)) { return from + i * b.step + k; },
          [&](int i) __attribute__((always_inline)) { return to + (k + i) * kColumns + j; });
    }
    for (; k < inner; ++k) {
      for (int64_t i = 0; i < width; ++i) to[k * kColumns + j + i] = from[i * b.step + k];
    }
  }
}

/// Of the panels that ACCEL_FOR_EACH_CPU_OF selects.
int64_t columns_of_panel() {
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return TileSizes<64>::kColumns;
    case CpuTarget::kAvx2:
      return TileSizes<32>::kColumns;
    default:
      return TileSizes<16>::kColumns;
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void pack(const MatrixPart& b, const ProductShape& shape, float* panels) {
  constexpr int64_t kColumns = TileSizes<kBytes>::kColumns;
  for (int64_t first = 0; first < shape.columns; first += kColumns) {
    const int64_t columns = std::min(kColumns, shape.columns - first);
    const MatrixPart part = {b.data + first * (b.turned ? b.step : 1), b.step};
    float* const to = panels + first * shape.inner;
    b.turned ? pack_turned<kBytes>(part, shape.inner, columns, to)
             : pack_rows<kBytes>(part, shape.inner, columns, to);
  }
}

}  // namespace

int64_t panel_numbers(int64_t inner, int64_t columns) {
  const int64_t width = columns_of_panel();
  return (columns + width - 1) / width * width * inner;
}

ACCEL_FOR_EACH_CPU_OF(pack_panels, (pack<64>, pack<32>, pack<16>),
                      (const MatrixPart& b, const ProductShape& shape, float* panels),
                      (b, shape, panels))
ACCEL_FOR_EACH_CPU_OF(panel_product, (any_product<64>, any_product<32>, any_product<16>),
                      (const MatrixPart& a, const PackedMatrix& b, const ProductShape& shape,
                       const ProductTarget& to),
                      (a, b, shape, to))

}  // namespace accel
