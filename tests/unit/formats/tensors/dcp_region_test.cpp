// Distributed checkpoints of several ranks: chunks on a grid, and reading of regions.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>

#include "core/base/format_error.h"
#include "formats/tensors/dcp.h"

namespace accel::dcp_region_test {
namespace {

using Folder = std::map<std::string, std::string>;

Array counting(const Shape& shape) {
  Array out(DType::kF32, shape);
  std::iota(out.mutable_as<float>().begin(), out.mutable_as<float>().end(), 0.0F);
  return out;
}

/// The elements of a region, one by one.
Array region_of(const Array& whole, const DcpChunk& region) {
  Array out(whole.type(), region.sizes);
  for (int64_t i = 0; i < out.count(); ++i) {
    int64_t rest = i, from = 0, stride = 1;
    for (size_t axis = region.sizes.size(); axis-- > 0;) {
      from += (region.offsets[axis] + rest % region.sizes[axis]) * stride;
      rest /= region.sizes[axis];
      stride *= whole.shape()[axis];
    }
    out.mutable_as<float>()[static_cast<size_t>(i)] = whole.as<float>()[static_cast<size_t>(from)];
  }
  return out;
}

/// Writes each chunk as the part of one rank.
Folder written(const Array& whole, const std::vector<DcpChunk>& chunks) {
  Folder out;
  std::vector<DcpMetadata> parts;
  for (const DcpChunk& chunk : chunks) {
    const std::string file = dcp_data_file(static_cast<int64_t>(parts.size()));
    const DcpShard shard = {"model.w",
                            {"model", "w"},
                            [array = region_of(whole, chunk)] { return array; },
                            whole.shape(),
                            chunk.offsets};
    parts.push_back(
        write_dcp_part({{shard}, {}}, file, [&](ByteSpan bytes) { out[file] += as_text(bytes); }));
  }
  out[kDcpMetadataFile] = dcp_metadata_text(merge_dcp_metadata(std::move(parts)));
  return out;
}

/// The tensor, and the bytes of each file that were accessed.
struct Found {
  Array array;
  std::map<std::string, size_t> accessed;
};

Found read(const Folder& folder, const std::optional<DcpChunk>& region) {
  Found out;
  DcpReadOptions options;
  options.select = [&](const DcpPath& path, const Shape&) {
    EXPECT_EQ(path.size(), 2U);
    return region;
  };
  options.before_access = [&](const std::string& file, ByteSpan bytes) {
    out.accessed[file] += bytes.size();
  };
  const auto open = [&](const std::string& name) -> SharedBytes {
    const auto copy = std::make_shared<std::string>(folder.at(name));
    return {as_bytes(*copy), copy};
  };
  out.array = read_dcp(open, options).tensors.at(0).array;
  return out;
}

void expect_equal(const Array& a, const Array& b, const std::string& when) {
  ASSERT_EQ(a.shape(), b.shape()) << when;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << when;
}

/// All regions of the shape, those without elements too.
std::vector<DcpChunk> regions(const Shape& shape) {
  std::vector<DcpChunk> out = {{}};
  for (const int64_t size : shape) {
    std::vector<DcpChunk> next;
    for (const DcpChunk& chunk : out) {
      for (int64_t begin = 0; begin <= size; ++begin) {
        for (int64_t end = begin; end <= size; ++end) {
          next.push_back(chunk);
          next.back().offsets.push_back(begin);
          next.back().sizes.push_back(end - begin);
        }
      }
    }
    out = std::move(next);
  }
  return out;
}

TEST(DcpRegionTest, EveryRegionOfAGridOfChunksIsRead) {
  const Array whole = counting({5, 4});
  const Folder grid = written(whole, {{{0, 0}, {2, 4}}, {{2, 0}, {3, 1}}, {{2, 1}, {3, 3}}});
  for (const DcpChunk& region : regions({5, 4})) {
    expect_equal(read(grid, region).array, region_of(whole, region),
                 to_string(region.offsets) + to_string(region.sizes));
  }
  const Array cube = counting({3, 2, 3});
  const Folder rows = written(cube, {{{0, 0, 0}, {2, 2, 3}}, {{2, 0, 0}, {1, 2, 3}}});
  for (const DcpChunk& region : regions({3, 2, 3})) {
    expect_equal(read(rows, region).array, region_of(cube, region),
                 to_string(region.offsets) + to_string(region.sizes));
  }
  expect_equal(read(rows, std::nullopt).array, cube, "all");
}

TEST(DcpRegionTest, OnlyBytesOfTheRegionAreAccessed) {
  const Array whole = counting({4000, 100});
  const Folder rows = written(whole, {{{0, 0}, {2000, 100}}, {{2000, 0}, {2000, 100}}});
  const Found found = read(rows, DcpChunk{{2100, 0}, {50, 100}});
  expect_equal(found.array, region_of(whole, {{2100, 0}, {50, 100}}), "rows");
  ASSERT_EQ(found.accessed.size(), 1U);
  EXPECT_EQ(found.accessed.at("__1_0.distcp"), 50U * 100 * 4 + 2 * 4096);
}

TEST(DcpRegionTest, ScalarsAndEmptyChunksAreKept) {
  const Array scalar = counting({});
  expect_equal(read(written(scalar, {{{}, {}}}), std::nullopt).array, scalar, "scalar");
  const Array one = counting({1, 3});
  const Folder folder = written(one, {{{0, 0}, {1, 3}}, {{1, 0}, {0, 3}}});
  expect_equal(read(folder, std::nullopt).array, one, "an empty chunk");
  EXPECT_EQ(read(folder, DcpChunk{{1, 0}, {0, 3}}).array.count(), 0);
}

std::string complaint(const std::vector<DcpChunk>& chunks) {
  try {
    written(counting({4, 2}), chunks);
    return "merged";
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(DcpRegionTest, ChunksOfRanksMustFitTogether) {
  EXPECT_EQ(complaint({{{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}}), "merged");
  EXPECT_EQ(complaint({{{0, 0}, {2, 2}}}),
            "'model.w': its chunks have 4 elements, its shape [4, 2] has 8");
  EXPECT_EQ(complaint({{{0, 0}, {3, 2}}, {{2, 0}, {2, 2}}}),
            "'model.w': its chunks at [0, 0] and [2, 0] overlap");
  EXPECT_EQ(complaint({{{0, 0}, {4, 1}}, {{0, 0}, {4, 1}}}),
            "'model.w': two ranks have the same chunk");
  const Array whole = counting({2});
  std::vector<DcpMetadata> parts;
  for (const Shape& shape : {Shape{2}, Shape{3}}) {
    DcpPart part;
    part.shards.push_back({"b", {"b"}, [whole] { return whole; }, shape, {0}});
    parts.push_back(write_dcp_part(part, "x", [](ByteSpan) {}));
  }
  EXPECT_THROW(
      try { merge_dcp_metadata(parts); } catch (const FormatError& error) {
        EXPECT_STREQ(error.what(), "'b': it is F32 [2] on one rank and F32 [3] on another");
        throw;
      },
      FormatError);
}

}  // namespace
}  // namespace accel::dcp_region_test
