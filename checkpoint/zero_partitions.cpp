#include "checkpoint/zero_partitions.h"

#include <algorithm>
#include <cstring>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

/// Elements of the parameter; refuses a shape of more than memory can hold.
int64_t elements_of(const ZeroParameter& parameter) {
  if (!claimed_bytes(DType::kF64, parameter.shape)) {
    throw FormatError(text("'{}' has an invalid shape", parameter.name));
  }
  return count_of(parameter.shape);
}

int64_t rounded_up(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

[[noreturn]] void refuse_size(int64_t found, int64_t wanted) {
  throw FormatError(text("its partitions have {} elements, the parameters need {}", found, wanted));
}

/// Flat tensors one after another.
class FlatTensors {
 public:
  void add(size_t rank, size_t partition, int64_t size) {
    parts_.push_back({rank, partition, size_, size});
    size_ += size;
  }
  int64_t size() const { return size_; }

  /// Appends the pieces of `count` elements from `first` on.
  void append_pieces(int64_t first, int64_t count, std::vector<ZeroPiece>& out) const {
    if (first > size_ || count > size_ - first) refuse_size(size_, first + count);
    for (const Part& part : parts_) {
      const int64_t begin = std::max(first, part.begin);
      const int64_t end = std::min(first + count, part.begin + part.size);
      if (begin < end) out.push_back({part.rank, part.partition, begin - part.begin, end - begin});
    }
  }

 private:
  struct Part {
    size_t rank;
    size_t partition;
    int64_t begin;
    int64_t size;
  };
  std::vector<Part> parts_;
  int64_t size_ = 0;
};

void append(std::vector<ZeroParameter>& out, std::vector<ZeroParameter>& more) {
  std::move(more.begin(), more.end(), std::back_inserter(out));
}

}  // namespace

std::vector<ZeroParameter> place_groups(std::vector<ZeroGroup> groups,
                                        const PartitionSizes& sizes) {
  std::vector<ZeroParameter> out;
  for (size_t g = 0; g < groups.size(); ++g) {
    FlatTensors flat;
    for (size_t rank = 0; rank < sizes.size(); ++rank) flat.add(rank, g, sizes[rank].at(g));
    int64_t first = 0;
    for (size_t i = 0; i < groups[g].parameters.size(); ++i) {
      ZeroParameter& parameter = groups[g].parameters[i];
      const int64_t count = elements_of(parameter);
      flat.append_pieces(first, count, parameter.pieces);
      first += count;
      if (!groups[g].padding.empty()) first += groups[g].padding.at(i);
    }
    // DeepSpeed pads a group to a multiple of twice the number of ranks.
    const auto multiple = 2 * static_cast<int64_t>(sizes.size());
    if (rounded_up(first, multiple) != rounded_up(flat.size(), multiple)) {
      refuse_size(flat.size(), first);
    }
    append(out, groups[g].parameters);
  }
  return out;
}

std::vector<ZeroParameter> place_each(std::vector<ZeroGroup> groups, const PartitionSizes& sizes) {
  std::vector<FlatTensors> flat(sizes.size());
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    for (size_t i = 0; i < sizes[rank].size(); ++i) flat[rank].add(rank, i, sizes[rank][i]);
  }
  const auto ranks = static_cast<int64_t>(sizes.size());
  std::vector<ZeroParameter> out;
  int64_t first = 0;
  for (ZeroGroup& group : groups) {
    for (ZeroParameter& parameter : group.parameters) {
      const int64_t count = elements_of(parameter), each = (count + ranks - 1) / ranks;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t own = std::clamp<int64_t>(count - rank * each, 0, each);
        flat[static_cast<size_t>(rank)].append_pieces(first, own, parameter.pieces);
      }
      first += each;
    }
    append(out, group.parameters);
  }
  for (const FlatTensors& rank : flat) {
    if (rank.size() != first) refuse_size(rank.size(), first);
  }
  return out;
}

Array join_pieces(const ZeroParameter& parameter, const FlatTensor& flat) {
  if (parameter.pieces.empty()) return {DType::kF32, parameter.shape};
  const auto source = [&](const ZeroPiece& piece) -> const Array& {
    return flat(piece.rank, piece.partition);
  };
  const Array& head = source(parameter.pieces.front());
  const size_t size = size_of(head.type());
  const auto begin = [&](const ZeroPiece& piece) {
    return source(piece).data() + static_cast<size_t>(piece.first) * size;
  };
  if (parameter.pieces.size() == 1) {
    return {head.type(), parameter.shape, begin(parameter.pieces.front()), head.owner()};
  }
  Array out(head.type(), parameter.shape);
  std::byte* target = out.mutable_data();
  for (const ZeroPiece& piece : parameter.pieces) {
    if (source(piece).type() != head.type()) {
      throw FormatError(text("the partitions of '{}' have several types", parameter.name));
    }
    const size_t bytes = static_cast<size_t>(piece.count) * size;
    std::memcpy(target, begin(piece), bytes);
    target += bytes;
  }
  return out;
}

}  // namespace accel
