// Inner loops of products of few rows with a weight in its stored type, over contiguous memory.
#pragma once

#include <cstdint>

namespace accel {

/// Independent sums of a product: column c adds to the sum c % kSumLanes.
inline constexpr int64_t kSumLanes = 16;
/// Rows of a weight that one call computes.
inline constexpr int64_t kWeightRows = 4;
/// Most columns of one call, and most rows of x times columns: x and the weights stay in the cache.
inline constexpr int64_t kMostColumns = 2048, kMostNumbers = 4096;

enum class StoredNumber { kFloat32, kBFloat16, kInt8 };

/// Columns of x and of a weight.
struct FewRowsPart {
  const float* x;        ///< [rows], zeros behind `count` up to a multiple of kSumLanes
  int64_t rows, x_step;  ///< and the stride of x
  StoredNumber type;     ///< of the weight
  const void* const* rows_of_weight;  ///< [kWeightRows], each `count` numbers
  const float* scales;                ///< [kWeightRows], factors of int8 if `rounds`
  int64_t count;                      ///< at most kMostColumns
  int64_t ahead;  ///< bytes from a row to what the next call reads, for prefetching
  bool rounds;    ///< whether weights are rounded to bfloat16
};

/// Adds the products to `sums` [kWeightRows, rows, kSumLanes]: of int8 without its factors, unless
/// weights are rounded.
void few_rows_cpu(const FewRowsPart& of, float* sums);

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

/// out[i - begin] = table[code i] * scale for begin <= i < end, each product rounded.
void decode_4bit(const Blocks4Bit& from, int64_t begin, int64_t end, float* out);

}  // namespace accel
