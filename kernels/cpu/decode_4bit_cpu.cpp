#include <immintrin.h>

#include <algorithm>

#include "core/base/cpu_target.h"
#include "kernels/cpu/few_rows.h"

namespace accel {

/// Whole blocks: `from.codes` are those of the first.
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))) static void
decode_blocks_cpu_avx512(const Blocks4Bit& from, int64_t blocks, float* out) {
  // Of two registers: the codes of high and of low bits in turn.
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  // With a mask: GCC 12 warns of the undefined registers of the others.
  constexpr __mmask16 kAll = 0xFFFF;
  const __m512 table = _mm512_loadu_ps(from.table);
  for (int64_t block = 0; block < blocks; ++block, out += kCodesPerBlock) {
    const __m512 scale = _mm512_set1_ps(from.scales[block]);
    const uint8_t* const codes = from.codes + block * kCodesPerBlock / 2;
    for (int half = 0; half < 2; ++half) {
      const __m512i pairs = _mm512_maskz_cvtepu8_epi32(
          kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + half * 16)));
      // A lookup reads the four low bits of an index.
      const __m512 high = _mm512_mul_ps(
          _mm512_maskz_permutexvar_ps(kAll, _mm512_maskz_srli_epi32(kAll, pairs, 4), table), scale);
      const __m512 low = _mm512_mul_ps(_mm512_maskz_permutexvar_ps(kAll, pairs, table), scale);
      _mm512_storeu_ps(out + half * 32, _mm512_permutex2var_ps(high, first, low));
      _mm512_storeu_ps(out + half * 32 + 16, _mm512_permutex2var_ps(high, second, low));
    }
  }
}

/// Bytes of the 16 floats of a table, which shuffles look up one by one.
struct TableBytes {
  __m256i of0, of1, of2, of3;
};

__attribute__((target("avx2,fma"))) static TableBytes table_bytes(const float* table) {
  const __m128i by_byte = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const auto* const floats = reinterpret_cast<const __m128i*>(table);
  const __m128i a = _mm_shuffle_epi8(_mm_loadu_si128(floats), by_byte);
  const __m128i b = _mm_shuffle_epi8(_mm_loadu_si128(floats + 1), by_byte);
  const __m128i c = _mm_shuffle_epi8(_mm_loadu_si128(floats + 2), by_byte);
  const __m128i d = _mm_shuffle_epi8(_mm_loadu_si128(floats + 3), by_byte);
  const __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
  const __m128i upper_ab = _mm_unpackhi_epi32(a, b), upper_cd = _mm_unpackhi_epi32(c, d);
  return {_mm256_broadcastsi128_si256(_mm_unpacklo_epi64(ab, cd)),
          _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(ab, cd)),
          _mm256_broadcastsi128_si256(_mm_unpacklo_epi64(upper_ab, upper_cd)),
          _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(upper_ab, upper_cd))};
}

/// The codes of a block in bytes: the elements 0 to 7 and 16 to 23 of the first half in the lower
/// lanes of `first`, the others in its upper lanes; `second` is the same of the second half.
struct BlockCodes {
  __m256i first, second;
};

__attribute__((target("avx2,fma"), always_inline)) static inline BlockCodes codes_of_block(
    const uint8_t* codes) {
  // Words of even numbers go to the lower half of a register, so that results are in order.
  const __m256i even_first = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i four_bits = _mm256_set1_epi8(15);
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i words =
      _mm256_permute4x64_epi64(_mm256_shuffle_epi8(bytes, even_first), 0b11011000);
  const __m256i high = _mm256_and_si256(_mm256_srli_epi16(words, 4), four_bits);
  const __m256i low = _mm256_and_si256(words, four_bits);
  return {_mm256_unpacklo_epi8(high, low), _mm256_unpackhi_epi8(high, low)};
}

/// 32 table entries in order.
struct HalfBlock {
  __m256 of0, of1, of2, of3;
};

__attribute__((target("avx2,fma"), always_inline)) static inline HalfBlock looked_up(
    const TableBytes& table, __m256i codes) {
  const __m256i of0 = _mm256_shuffle_epi8(table.of0, codes);
  const __m256i of1 = _mm256_shuffle_epi8(table.of1, codes);
  const __m256i of2 = _mm256_shuffle_epi8(table.of2, codes);
  const __m256i of3 = _mm256_shuffle_epi8(table.of3, codes);
  const __m256i of01 = _mm256_unpacklo_epi8(of0, of1), of23 = _mm256_unpacklo_epi8(of2, of3);
  const __m256i next01 = _mm256_unpackhi_epi8(of0, of1), next23 = _mm256_unpackhi_epi8(of2, of3);
  return {_mm256_castsi256_ps(_mm256_unpacklo_epi16(of01, of23)),
          _mm256_castsi256_ps(_mm256_unpackhi_epi16(of01, of23)),
          _mm256_castsi256_ps(_mm256_unpacklo_epi16(next01, next23)),
          _mm256_castsi256_ps(_mm256_unpackhi_epi16(next01, next23))};
}

__attribute__((target("avx2,fma"))) static void decode_blocks_cpu_avx2(const Blocks4Bit& from,
                                                                       int64_t blocks, float* out) {
  const TableBytes table = table_bytes(from.table);
  for (int64_t block = 0; block < blocks; ++block) {
    const __m256 scale = _mm256_set1_ps(from.scales[block]);
    const BlockCodes codes = codes_of_block(from.codes + block * kCodesPerBlock / 2);
    for (const __m256i half : {codes.first, codes.second}) {
      const HalfBlock numbers = looked_up(table, half);
      _mm256_storeu_ps(out, _mm256_mul_ps(numbers.of0, scale));
      _mm256_storeu_ps(out + 8, _mm256_mul_ps(numbers.of1, scale));
      _mm256_storeu_ps(out + 16, _mm256_mul_ps(numbers.of2, scale));
      _mm256_storeu_ps(out + 24, _mm256_mul_ps(numbers.of3, scale));
      out += 32;
    }
  }
}

__attribute__((target("avx2,fma"))) static void add_blocks_in_registers(const Blocks4Bit& from,
                                                                        const float* x,
                                                                        int64_t blocks,
                                                                        float* sums) {
  const TableBytes table = table_bytes(from.table);
  __m256 low = _mm256_loadu_ps(sums), high = _mm256_loadu_ps(sums + 8);
  for (int64_t block = 0; block < blocks; ++block) {
    const __m256 scale = _mm256_set1_ps(from.scales[block]);
    const BlockCodes codes = codes_of_block(from.codes + block * kCodesPerBlock / 2);
    for (const __m256i half : {codes.first, codes.second}) {
      const HalfBlock numbers = looked_up(table, half);
      low = _mm256_fmadd_ps(_mm256_mul_ps(numbers.of0, scale), _mm256_loadu_ps(x), low);
      high = _mm256_fmadd_ps(_mm256_mul_ps(numbers.of1, scale), _mm256_loadu_ps(x + 8), high);
      low = _mm256_fmadd_ps(_mm256_mul_ps(numbers.of2, scale), _mm256_loadu_ps(x + 16), low);
      high = _mm256_fmadd_ps(_mm256_mul_ps(numbers.of3, scale), _mm256_loadu_ps(x + 24), high);
      x += 32;
    }
  }
  _mm256_storeu_ps(sums, low);
  _mm256_storeu_ps(sums + 8, high);
}

bool has_row_of_blocks() {
  return cpu_target() == CpuTarget::kAvx2;
}

void add_row_of_blocks(const Blocks4Bit& from, const float* x, int64_t blocks, float* sums) {
  add_blocks_in_registers(from, x, blocks, sums);
}

namespace {

void decode_codes(const Blocks4Bit& from, int64_t begin, int64_t end, float scale, float* out) {
  for (int64_t i = begin; i < end; ++i) {
    const unsigned pair = from.codes[i / 2];
    out[i - begin] = from.table[i % 2 == 0 ? pair >> 4U : pair & 15U] * scale;
  }
}

void decode_blocks_cpu_any(const Blocks4Bit& from, int64_t blocks, float* out) {
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * kCodesPerBlock;
    decode_codes(from, first, first + kCodesPerBlock, from.scales[block], out + first);
  }
}

void decode_blocks(const Blocks4Bit& from, int64_t blocks, float* out) {
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return decode_blocks_cpu_avx512(from, blocks, out);
    case CpuTarget::kAvx2:
      return decode_blocks_cpu_avx2(from, blocks, out);
    default:
      return decode_blocks_cpu_any(from, blocks, out);
  }
}

}  // namespace

void decode_4bit(const Blocks4Bit& from, int64_t begin, int64_t end, float* out) {
  const int64_t head =
      std::min(end, (begin + kCodesPerBlock - 1) / kCodesPerBlock * kCodesPerBlock);
  const float* scale = from.scales;
  if (begin < head) decode_codes(from, begin, head, *scale++, out);
  const int64_t blocks = (end - head) / kCodesPerBlock, tail = head + blocks * kCodesPerBlock;
  decode_blocks({from.codes + head / 2, scale, from.table}, blocks, out + (head - begin));
  if (tail < end) decode_codes(from, tail, end, scale[blocks], out + (tail - begin));
}

}  // namespace accel
