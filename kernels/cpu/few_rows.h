// Inner loops of products of few rows with a weight in its stored type, over contiguous memory.
#pragma once

#include <cstdint>

namespace accel {

/// Independent sums of a product.
inline constexpr int64_t kSumLanes = 16;
/// Rows of a weight that one call computes.
inline constexpr int64_t kWeightRows = 4;
/// Most columns of one call.
inline constexpr int64_t kMostColumns = 2048;

enum class StoredNumber { kFloat32, kBFloat16, kInt8 };

constexpr int64_t bytes_of(StoredNumber type) {
  return type == StoredNumber::kFloat32 ? 4 : type == StoredNumber::kBFloat16 ? 2 : 1;
}

/// Columns of x and of a weight.
struct FewRowsPart {
  const void* x;         ///< [rows], zeros behind `count` up to a multiple of kSumLanes
  StoredNumber x_type;   ///< float32, or bfloat16: with AVX512_BF16, where
                         ///< weights are bfloat16 too or rounded to it
  int64_t rows, x_step;  ///< and the stride of x, in numbers
  StoredNumber type;     ///< of the weight
  const void* const* rows_of_weight;  ///< [kWeightRows], each `count` numbers
  const float* scales;                ///< [kWeightRows], factors of int8 if `rounds`
  int64_t count;                      ///< at most kMostColumns
  int64_t ahead;                      ///< prefetch distance of the weight, bytes; 0: none
  bool rounds;                        ///< whether weights are rounded to bfloat16
};

/// Adds the products to `sums` [kWeightRows, rows, kSumLanes]: of int8 without its factors, unless
/// weights are rounded. A column adds to a sum that depends on it and on the processor.
void few_rows_cpu(const FewRowsPart& of, float* sums);
/// Of few_rows_cpu(), with AVX-512.
void few_rows_avx512(const FewRowsPart& of, float* sums);

/// Elements of a 4-bit block, which share a scale.
inline constexpr int64_t kCodesPerBlock = 64;

/// Codes of 4 bits, the first of a byte in the high bits.
struct Blocks4Bit {
  const uint8_t* codes;  ///< of element 0
  const float* scales;   ///< of the block of the first decoded element
  const float* table;    ///< [16], by code
};

/// Adds the products of one row of x with whole blocks to `sums` [kSumLanes], which have the bits
/// of those of decode_4bit() and few_rows_cpu(). Requires has_row_of_blocks().
void add_row_of_blocks(const Blocks4Bit& from, const float* x, int64_t blocks, float* sums);
/// Whether it was measured to be faster on this kind of processor: with AVX2 only.
bool has_row_of_blocks();

/// Whole blocks of x and of a weight of 4 bits.
struct FewRowsCodes {
  /// [rows]. Of each 32 columns of float32, and of each 64 of bfloat16, those with even numbers
  /// come first: codes of a byte are apart.
  const void* x;
  StoredNumber x_type;          ///< as in FewRowsPart
  int64_t rows, x_step;         ///< and the stride of x, in numbers
  const uint8_t* const* codes;  ///< [kWeightRows], of the first block
  const float* const* scales;   ///< [kWeightRows], by block
  const float* table;           ///< [16], by code
  int64_t blocks;
  int64_t ahead;  ///< as in FewRowsPart
  bool rounds;    ///< whether weights are rounded to bfloat16
};

/// As few_rows_cpu(), with AVX-512: codes are decoded in registers.
void few_rows_codes_avx512(const FewRowsCodes& of, float* sums);
/// Writes `count` columns, a multiple of kCodesPerBlock, in the order of FewRowsCodes.
void even_columns_first_avx512(const float* from, int64_t count, float* to);
void even_columns_first_avx512(const uint16_t* from, int64_t count, uint16_t* to);

/// The sums of `count` times kSumLanes numbers, by halves.
void sum_lanes(const float* lanes, int64_t count, float* sums);
/// Of sum_lanes().
void sum_lanes_avx512(const float* lanes, int64_t count, float* sums);

/// out[i - begin] = table[code i] * scale for begin <= i < end, each product rounded.
void decode_4bit(const Blocks4Bit& from, int64_t begin, int64_t end, float* out);

}  // namespace accel
