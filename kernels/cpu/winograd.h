// Transforms of 3x3 convolutions with stride 1 by Winograd's algorithm F(n x n, 3x3) (Lavin and
// Gray, arXiv:1509.09308): a tile of n x n outputs takes (n + 2)^2 products per channel.
//
// Transformed tiles are (n + 2)^2 matrices [tiles, channels], transformed weights as many matrices
// [out, in]. Rows of matrices have whole blocks of channels, zero behind the last channel.
#pragma once

#include <cstdint>

namespace accel {

constexpr int64_t kWinogradBlock = 16;  ///< channels that a transform computes at once

constexpr int64_t whole_blocks(int64_t channels) {
  return (channels + kWinogradBlock - 1) / kWinogradBlock * kWinogradBlock;
}

/// Images [channels, rows, columns] that are covered by tiles.
struct WinogradImages {
  int64_t channels;
  int64_t size[2];     ///< rows and columns
  int64_t padding[2];  ///< of inputs before the first row and column; not read of outputs
  int64_t tiles[2];    ///< rows and columns of tiles
};

/// A block of channels of rows [begin, end) of tiles of one image.
struct WinogradRows {
  int64_t outputs;  ///< n: 2 or 4
  const WinogradImages& images;
  int64_t channel;  ///< the first: a multiple of kWinogradBlock
  int64_t begin, end;
  float* scratch;  ///< winograd_scratch() floats
  float* numbers;  ///< (n + 2)^2 matrices [tiles of the rows, whole_blocks(channels)]
  int64_t step;    ///< between matrices
};

/// Floats of the scratch memory for a number of rows of tiles.
int64_t winograd_scratch(int64_t outputs, const WinogradImages& images, int64_t rows);

/// numbers = B^T d B of the tiles d of (n + 2) x (n + 2) pixels of an image; zero outside it.
void winograd_inputs_cpu(const WinogradRows& rows, const float* image);
/// numbers = A d A^T of the tiles d of n x n gradients of outputs; zero outside.
void winograd_output_gradients_cpu(const WinogradRows& rows, const float* dy);
/// y = A^T m A of the tiles m of numbers, plus bias [channels] unless null.
void winograd_outputs_cpu(const WinogradRows& rows, const float* bias, float* y);

/// Windows [rows, columns, 3, 3] of weights, whose transform is (n + 2)^2 matrices
/// [rows, whole_blocks(columns)].
struct WinogradWeights {
  int64_t outputs;  ///< n: 2 or 4
  int64_t columns;
  int64_t row_step, column_step;  ///< between windows
  bool is_flipped;                ///< rotated by 180 degrees
  int64_t step;                   ///< between matrices
};

/// numbers = G g G^T of the windows g of rows [begin, end).
void winograd_weights_cpu(const WinogradWeights& of, const float* weights, int64_t begin,
                          int64_t end, float* numbers);

/// dweights = G^T d G of the transformed gradients d, for rows [begin, end).
void winograd_weight_gradients_cpu(const WinogradWeights& of, const float* numbers, int64_t begin,
                                   int64_t end, float* dweights);

}  // namespace accel
