// Products of few rows with AVX-512: a tile of rows of the weight and of x, whose sums stay in
// registers. Weights are converted as they are loaded.
#include <immintrin.h>

#include <cstddef>
#include <utility>

#include "kernels/cpu/few_rows.h"

// GCC and Clang emit instructions of AVX512_BF16 for their intrinsics only, so that functions
// without these run on processors without it.
#define ACCEL_AVX512 \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma")))
#define ACCEL_AVX512_PART \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma"), always_inline))

namespace accel {
namespace {

// With masks of all elements: GCC 12 warns of the undefined registers of the others.
constexpr __mmask16 kAll = 0xFFFF;

/// Of the first `count` elements.
ACCEL_AVX512_PART inline __mmask16 mask_of(int64_t count) {
  return count >= 16 ? kAll : static_cast<__mmask16>((1U << static_cast<unsigned>(count)) - 1U);
}
ACCEL_AVX512_PART inline __mmask32 long_mask_of(int64_t count) {
  return count >= 32 ? 0xFFFFFFFFU : (1U << static_cast<unsigned>(count)) - 1U;
}

ACCEL_AVX512_PART inline __m512 widened(__m256i halves) {
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, halves);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
}
ACCEL_AVX512_PART inline __m512 widened(__m128i bytes) {
  return _mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepi8_epi32(kAll, bytes));
}
/// To the nearest bfloat16, ties to even, as AVX512_BF16 does.
ACCEL_AVX512_PART inline __m512 rounded(__m512 numbers) {
  const __m512i bits = _mm512_castps_si512(numbers);
  const __m512i upper = _mm512_maskz_srli_epi32(kAll, bits, 16);
  const __m512i is_odd = _mm512_maskz_and_epi32(kAll, upper, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), is_odd);
  const __m512i wide = _mm512_maskz_srli_epi32(kAll, sum, 16);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
}

template <typename To, typename From>
ACCEL_AVX512_PART inline To with_bits_of(const From& from) {
  To to;
  static_assert(sizeof to == sizeof from);
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

/// Columns in float32.
struct FloatColumns {
  using X = float;
  using Numbers = __m512;
  static constexpr int64_t kWidth = 16;

  static ACCEL_AVX512_PART __m512 of(const float* x) { return _mm512_loadu_ps(x); }
  static ACCEL_AVX512_PART __m512 some(const float* x, int64_t count) {
    return _mm512_maskz_loadu_ps(mask_of(count), x);
  }
  static ACCEL_AVX512_PART void add(__m512 x, __m512 weight, __m512& sum) {
    sum = _mm512_fmadd_ps(x, weight, sum);
  }
};

/// Columns in bfloat16: a lane adds the products of two.
struct PairColumns {
  using X = uint16_t;
  using Numbers = __m512bh;
  static constexpr int64_t kWidth = 32;

  static ACCEL_AVX512_PART __m512bh of(const uint16_t* x) {
    return with_bits_of<__m512bh>(_mm512_loadu_si512(x));
  }
  static ACCEL_AVX512_PART __m512bh some(const uint16_t* x, int64_t count) {
    return with_bits_of<__m512bh>(_mm512_maskz_loadu_epi16(long_mask_of(count), x));
  }
  static ACCEL_AVX512_PART void add(__m512bh x, __m512bh weight, __m512& sum) {
    sum = _mm512_dpbf16_ps(sum, x, weight);
  }
};

/// kVectors registers of a weight.
template <typename Columns, size_t kVectors>
struct StepOf {
  typename Columns::Numbers of[kVectors];
};

/// Int8 and its scale.
struct ScaledBytes {
  const int8_t* at;
  __m512 scale;

  ACCEL_AVX512_PART ScaledBytes(const FewRowsPart& part, size_t n)
      : at(static_cast<const int8_t*>(part.rows_of_weight[n])),
        scale(_mm512_set1_ps(part.scales[n])) {}
};

/// Codes of 4 bits, the scales of their blocks, and the table.
struct ScaledCodes {
  const uint8_t* at;
  const float* scales;
  __m512 units;

  ACCEL_AVX512_PART ScaledCodes(const FewRowsCodes& part, size_t n)
      : at(part.codes[n]), scales(part.scales[n]), units(_mm512_loadu_ps(part.table)) {}
  /// The numbers of a block's codes.
  ACCEL_AVX512_PART __m512 table(int64_t block) const {
    return _mm512_mul_ps(units, _mm512_set1_ps(scales[block]));
  }
};

// A row of a weight in steps of kVectors registers; `last` has the first columns of a step, and
// zeros.

template <typename Number>
struct FloatRow : FloatColumns {
  static constexpr size_t kVectors = 1;
  static constexpr int64_t kBytes = kWidth * sizeof(Number);
  using Step = StepOf<FloatColumns, kVectors>;
  const Number* at;

  ACCEL_AVX512_PART FloatRow(const FewRowsPart& part, size_t n)
      : at(static_cast<const Number*>(part.rows_of_weight[n])) {}
  ACCEL_AVX512_PART Step step(int64_t i) const { return {{number(at + i * kWidth)}}; }
  ACCEL_AVX512_PART Step last(int64_t i, int64_t count) const {
    return {{number(at + i * kWidth, mask_of(count))}};
  }

 private:
  static ACCEL_AVX512_PART __m512 number(const float* from, __mmask16 mask = kAll) {
    return _mm512_maskz_loadu_ps(mask, from);
  }
  static ACCEL_AVX512_PART __m512 number(const uint16_t* from, __mmask16 mask = kAll) {
    return widened(_mm256_maskz_loadu_epi16(mask, from));
  }
  static ACCEL_AVX512_PART __m512 number(const int8_t* from, __mmask16 mask = kAll) {
    return widened(_mm_maskz_loadu_epi8(mask, from));
  }
};

/// Rounded to bfloat16.
struct RoundedFloatRow : FloatRow<float> {
  ACCEL_AVX512_PART RoundedFloatRow(const FewRowsPart& part, size_t n) : FloatRow(part, n) {}
  ACCEL_AVX512_PART Step step(int64_t i) const { return {{rounded(FloatRow::step(i).of[0])}}; }
  ACCEL_AVX512_PART Step last(int64_t i, int64_t count) const {
    return {{rounded(FloatRow::last(i, count).of[0])}};
  }
};

struct PairRow : PairColumns {
  static constexpr size_t kVectors = 1;
  static constexpr int64_t kBytes = 64;
  using Step = StepOf<PairColumns, kVectors>;
  const uint16_t* at;

  ACCEL_AVX512_PART PairRow(const FewRowsPart& part, size_t n)
      : at(static_cast<const uint16_t*>(part.rows_of_weight[n])) {}
  ACCEL_AVX512_PART Step step(int64_t i) const { return {{of(at + i * kWidth)}}; }
  ACCEL_AVX512_PART Step last(int64_t i, int64_t count) const {
    return {{some(at + i * kWidth, count)}};
  }
};

/// Of int8, scaled and rounded to bfloat16.
struct ScaledFloatRow : FloatColumns, ScaledBytes {
  static constexpr size_t kVectors = 1;
  static constexpr int64_t kBytes = 16;
  using Step = StepOf<FloatColumns, kVectors>;

  ACCEL_AVX512_PART ScaledFloatRow(const FewRowsPart& part, size_t n) : ScaledBytes(part, n) {}
  ACCEL_AVX512_PART Step step(int64_t i) const { return last(i, kWidth); }
  ACCEL_AVX512_PART Step last(int64_t i, int64_t count) const {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask_of(count), at + i * kWidth);
    return {{rounded(_mm512_mul_ps(widened(bytes), scale))}};
  }
};

/// The same with AVX512_BF16.
struct ScaledPairRow : PairColumns, ScaledBytes {
  static constexpr size_t kVectors = 1;
  static constexpr int64_t kBytes = 32;
  using Step = StepOf<PairColumns, kVectors>;

  ACCEL_AVX512_PART ScaledPairRow(const FewRowsPart& part, size_t n) : ScaledBytes(part, n) {}
  ACCEL_AVX512_PART Step step(int64_t i) const { return last(i, kWidth); }
  ACCEL_AVX512_PART Step last(int64_t i, int64_t count) const {
    const __m256i bytes = _mm256_maskz_loadu_epi8(long_mask_of(count), at + i * kWidth);
    const __m512 first = widened(_mm256_castsi256_si128(bytes));
    const __m512 second = widened(_mm256_extracti128_si256(bytes, 1));
    return {{_mm512_cvtne2ps_pbh(_mm512_mul_ps(second, scale), _mm512_mul_ps(first, scale))}};
  }
};

/// Half a block of 4-bit codes in a step: those of high bits, then those of low bits.
template <bool kRounds>
struct CodeRow : FloatColumns, ScaledCodes {
  static constexpr size_t kVectors = 2;
  static constexpr int64_t kBytes = 16;
  using Step = StepOf<FloatColumns, kVectors>;

  ACCEL_AVX512_PART CodeRow(const FewRowsCodes& part, size_t n) : ScaledCodes(part, n) {}
  ACCEL_AVX512_PART Step step(int64_t i) const {
    const __m512 scaled = table(i / 2), numbers = kRounds ? rounded(scaled) : scaled;
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i * kBytes));
    // A lookup reads the four low bits of an index.
    const __m512i low = _mm512_maskz_cvtepu8_epi32(kAll, bytes);
    const __m512i high = _mm512_maskz_srli_epi32(kAll, low, 4);
    return {{_mm512_maskz_permutexvar_ps(kAll, high, numbers),
             _mm512_maskz_permutexvar_ps(kAll, low, numbers)}};
  }
};

/// A block in a step, rounded to bfloat16, with AVX512_BF16.
struct CodePairRow : PairColumns, ScaledCodes {
  static constexpr size_t kVectors = 2;
  static constexpr int64_t kBytes = 32;
  using Step = StepOf<PairColumns, kVectors>;

  ACCEL_AVX512_PART CodePairRow(const FewRowsCodes& part, size_t n) : ScaledCodes(part, n) {}
  ACCEL_AVX512_PART Step step(int64_t i) const {
    const __m512 scaled = table(i);
    // Twice, since a lookup reads five bits of an index.
    const auto numbers = with_bits_of<__m512i>(_mm512_cvtne2ps_pbh(scaled, scaled));
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i * kBytes));
    const __m512i low = _mm512_cvtepu8_epi16(bytes);
    const __m512i high = _mm512_srli_epi16(low, 4);
    return {{with_bits_of<__m512bh>(_mm512_permutexvar_epi16(high, numbers)),
             with_bits_of<__m512bh>(_mm512_permutexvar_epi16(low, numbers))}};
  }
};

template <typename Part>
struct Tile {
  const Part& part;
  int64_t steps, rest;  ///< of a row: whole steps, and columns behind them
  int64_t first_row;
  size_t first_weight;
  float* sums;
  bool prefetches;
};

/// kRows of x by kWeights rows of the weight. Registers are named one by one: arrays in loops would
/// be in memory.
template <typename Row, typename Part, size_t kRows, size_t kWeights>
struct TileLoop {
  using Numbers = typename Row::Numbers;
  using Sums = __m512[kWeights][kRows];
  using EachRow = std::make_index_sequence<kRows>;
  using EachWeight = std::make_index_sequence<kWeights>;
  using EachVector = std::make_index_sequence<Row::kVectors>;
  static constexpr int64_t kStep = static_cast<int64_t>(Row::kVectors) * Row::kWidth;
  static constexpr int64_t kStepsOfLine = 64 / Row::kBytes;

  const Tile<Part>& tile;

  ACCEL_AVX512_PART float* lanes(size_t weight, size_t row) const {
    const auto at = static_cast<int64_t>(tile.first_weight + weight) * tile.part.rows;
    return tile.sums + (at + tile.first_row + static_cast<int64_t>(row)) * kSumLanes;
  }
  ACCEL_AVX512_PART const typename Row::X* columns(int64_t step, size_t row, size_t vector) const {
    return static_cast<const typename Row::X*>(tile.part.x) +
           (tile.first_row + static_cast<int64_t>(row)) * tile.part.x_step + step * kStep +
           static_cast<int64_t>(vector) * Row::kWidth;
  }

  template <size_t... kRow>
  ACCEL_AVX512_PART void load(size_t weight, Sums& sums, std::index_sequence<kRow...>) const {
    ((sums[weight][kRow] = _mm512_loadu_ps(lanes(weight, kRow))), ...);
  }
  template <size_t... kRow>
  ACCEL_AVX512_PART void store(size_t weight, const Sums& sums,
                               std::index_sequence<kRow...>) const {
    (_mm512_storeu_ps(lanes(weight, kRow), sums[weight][kRow]), ...);
  }
  template <size_t... kRow>
  static ACCEL_AVX512_PART void add(const Numbers (&x)[kRows], Numbers weight,
                                    __m512 (&sums)[kRows], std::index_sequence<kRow...>) {
    (Row::add(x[kRow], weight, sums[kRow]), ...);
  }

  template <size_t... kWeight>
  static ACCEL_AVX512_PART void add_weights(const Numbers (&x)[kRows],
                                            const typename Row::Step (&weights)[kWeights],
                                            size_t vector, Sums& sums,
                                            std::index_sequence<kWeight...>) {
    (add(x, weights[kWeight].of[vector], sums[kWeight], EachRow()), ...);
  }
  template <size_t... kRow>
  ACCEL_AVX512_PART void add_vector(int64_t step, size_t vector,
                                    const typename Row::Step (&weights)[kWeights], Sums& sums,
                                    std::index_sequence<kRow...>) const {
    const Numbers x[] = {Row::of(columns(step, kRow, vector))...};
    add_weights(x, weights, vector, sums, EachWeight());
  }
  template <size_t... kWeight, size_t... kVector>
  ACCEL_AVX512_PART void add_step(int64_t step, const Row (&rows)[kWeights], Sums& sums,
                                  std::index_sequence<kWeight...>,
                                  std::index_sequence<kVector...>) const {
    const typename Row::Step weights[] = {rows[kWeight].step(step)...};
    (add_vector(step, kVector, weights, sums, EachRow()), ...);
  }
  template <size_t... kRow, size_t... kWeight>
  ACCEL_AVX512_PART void add_rest(const Row (&rows)[kWeights], Sums& sums,
                                  std::index_sequence<kRow...>,
                                  std::index_sequence<kWeight...>) const {
    const Numbers x[] = {Row::some(columns(tile.steps, kRow, 0), tile.rest)...};
    (add(x, rows[kWeight].last(tile.steps, tile.rest).of[0], sums[kWeight], EachRow()), ...);
  }

  template <size_t... kWeight>
  ACCEL_AVX512_PART void run(std::index_sequence<kWeight...>) const {
    const Row rows[] = {Row(tile.part, tile.first_weight + kWeight)...};
    Sums sums;
    (load(kWeight, sums, EachRow()), ...);
    int64_t step = 0;
    for (; step + kStepsOfLine <= tile.steps; step += kStepsOfLine) {
      if (tile.prefetches) {
        (__builtin_prefetch(
             reinterpret_cast<const char*>(rows[kWeight].at) + step * Row::kBytes + tile.part.ahead,
             0, 2),
         ...);
      }
      for (int64_t i = step; i < step + kStepsOfLine; ++i) {
        add_step(i, rows, sums, EachWeight(), EachVector());
      }
    }
    for (; step < tile.steps; ++step) add_step(step, rows, sums, EachWeight(), EachVector());
    if constexpr (Row::kVectors == 1) {
      if (tile.rest > 0) add_rest(rows, sums, EachRow(), EachWeight());
    }
    (store(kWeight, sums, EachRow()), ...);
  }
};

/// All rows of the weight, kWeights at a time.
template <typename Row, size_t kRows, size_t kWeights, typename Part>
ACCEL_AVX512_PART inline void add_tile(Tile<Part> tile) {
  using Loop = TileLoop<Row, Part, kRows, kWeights>;
  for (size_t n = 0; n < kWeightRows; n += kWeights) {
    tile.first_weight = n;
    Loop{tile}.run(typename Loop::EachWeight());
  }
}

/// A tile of five to eight rows of x: with two rows of the weight from the seventh on, so that
/// memory is read in one pass.
template <typename Row, typename Part>
ACCEL_AVX512_PART inline void add_wide_tile(const Tile<Part>& tile, int64_t rows) {
  switch (rows) {
    case 5:
      return add_tile<Row, 5, 4>(tile);
    case 6:
      return add_tile<Row, 6, 4>(tile);
    case 7:
      return add_tile<Row, 7, 2>(tile);
    default:
      return add_tile<Row, 8, 2>(tile);
  }
}

/// Tiles of about equal numbers of rows, at most kMost.
template <typename Row, int64_t kMost, typename Part>
ACCEL_AVX512_PART inline void add_tiles(const Part& of, int64_t columns, float* sums) {
  constexpr auto kStep = static_cast<int64_t>(Row::kVectors) * Row::kWidth;
  const int64_t tiles = (of.rows + kMost - 1) / kMost;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t first = of.rows * i / tiles, end = of.rows * (i + 1) / tiles;
    const Tile<Part> tile = {of,   columns / kStep,        columns % kStep, first, 0,
                             sums, i == 0 && of.ahead != 0};
    switch (end - first) {
      case 1:
        add_tile<Row, 1, 4>(tile);
        break;
      case 2:
        add_tile<Row, 2, 4>(tile);
        break;
      case 3:
        add_tile<Row, 3, 4>(tile);
        break;
      case 4:
        add_tile<Row, 4, 4>(tile);
        break;
      default:
        if constexpr (kMost > 4) add_wide_tile<Row>(tile, end - first);
    }
  }
}

/// The low halves of 32 numbers.
ACCEL_AVX512_PART inline void store_low_halves(__m512i first, __m512i second, uint16_t* to) {
  const __m256i halves[] = {_mm512_maskz_cvtepi32_epi16(kAll, first),
                            _mm512_maskz_cvtepi32_epi16(kAll, second)};
  __builtin_memcpy(to, halves, sizeof halves);
}

}  // namespace

ACCEL_AVX512 void few_rows_avx512(const FewRowsPart& of, float* sums) {
  const bool has_pairs = of.x_type == StoredNumber::kBFloat16;
  switch (of.type) {
    case StoredNumber::kFloat32:
      if (of.rounds) return add_tiles<RoundedFloatRow, 6>(of, of.count, sums);
      return add_tiles<FloatRow<float>, 6>(of, of.count, sums);
    case StoredNumber::kBFloat16:
      if (has_pairs) return add_tiles<PairRow, 8>(of, of.count, sums);
      return add_tiles<FloatRow<uint16_t>, 6>(of, of.count, sums);
    case StoredNumber::kInt8:
      if (has_pairs) return add_tiles<ScaledPairRow, 8>(of, of.count, sums);
      if (of.rounds) return add_tiles<ScaledFloatRow, 6>(of, of.count, sums);
      return add_tiles<FloatRow<int8_t>, 6>(of, of.count, sums);
  }
}

ACCEL_AVX512 void few_rows_codes_avx512(const FewRowsCodes& of, float* sums) {
  const int64_t columns = of.blocks * kCodesPerBlock;
  if (of.x_type == StoredNumber::kBFloat16) return add_tiles<CodePairRow, 4>(of, columns, sums);
  if (of.rounds) return add_tiles<CodeRow<true>, 4>(of, columns, sums);
  add_tiles<CodeRow<false>, 4>(of, columns, sums);
}

ACCEL_AVX512 void sum_lanes_avx512(const float* lanes, int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i, lanes += kSumLanes) {
    const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(lanes), _mm256_loadu_ps(lanes + 8));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    sums[i] = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
}

ACCEL_AVX512 void even_columns_first_avx512(const float* from, int64_t count, float* to) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  for (int64_t i = 0; i < count; i += 32) {
    const __m512 first = _mm512_loadu_ps(from + i), second = _mm512_loadu_ps(from + i + 16);
    _mm512_storeu_ps(to + i, _mm512_permutex2var_ps(first, even, second));
    _mm512_storeu_ps(to + i + 16, _mm512_permutex2var_ps(first, odd, second));
  }
}

ACCEL_AVX512 void even_columns_first_avx512(const uint16_t* from, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += 64) {
    const __m512i first = _mm512_loadu_si512(from + i), second = _mm512_loadu_si512(from + i + 32);
    // Numbers with even indices are the low halves of pairs.
    store_low_halves(first, second, to + i);
    store_low_halves(_mm512_maskz_srli_epi32(kAll, first, 16),
                     _mm512_maskz_srli_epi32(kAll, second, 16), to + i + 32);
  }
}

}  // namespace accel
