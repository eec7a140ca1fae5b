#include "formats/tensors/npy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMaxNpyHeader = 4096;
constexpr size_t kMaxNpyDims = 32;

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

/// Parser of the Python literal in the header: a dict of strings, booleans and tuples of integers.
class LiteralReader {
 public:
  LiteralReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader header() {
    NpyHeader header;
    int seen = 0;
    expect('{');
    while (!accept('}')) {
      const std::string key = text();
      expect(':');
      if (key == "descr") {
        header.descr = text();
        seen |= 1;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        seen |= 2;
      } else if (key == "shape") {
        header.shape = tuple();
        seen |= 4;
      } else {
        fail();
      }
      if (!accept(',') && !peek('}')) fail();
    }
    skip_spaces();
    if (seen != 7 || at_ != text_.size()) fail();
    return header;
  }

 private:
  [[noreturn]] void fail() const {
    throw DataError(
        accel::text("'{}' has an invalid .npy header at byte {} of the dict", name_, at_),
        "write an array of numbers with numpy.save(path, array)");
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool peek(char wanted) {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == wanted;
  }
  bool accept(char wanted) {
    if (!peek(wanted)) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }

  std::string text() {
    const char quote = peek('"') ? '"' : '\'';
    expect(quote);
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) fail();
    const std::string_view value = text_.substr(at_, end - at_);
    if (value.find('\\') != std::string_view::npos) fail();
    at_ = end + 1;
    return std::string(value);
  }

  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    }
    fail();
  }

  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    const size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
        fail();
      }
    }
    if (at_ == first) fail();
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long integer of Python 2
    return value;
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMaxNpyDims) fail();
      shape.push_back(number());
      if (!accept(',') && !peek(')')) fail();
    }
    return shape;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

std::optional<DType> npy_type(std::string_view code) {
  static const std::map<std::string_view, DType> types = {
      {"b1", DType::kBool}, {"u1", DType::kU8},  {"i1", DType::kI8},  {"u2", DType::kU16},
      {"i2", DType::kI16},  {"f2", DType::kF16}, {"u4", DType::kU32}, {"i4", DType::kI32},
      {"f4", DType::kF32},  {"u8", DType::kU64}, {"i8", DType::kI64}, {"f8", DType::kF64}};
  const auto found = types.find(code);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

DType wanted_type(const NpyHeader& header, const std::string& name) {
  const std::string& descr = header.descr;
  const bool ordered =
      !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string::npos;
  const std::optional<DType> type =
      ordered ? npy_type(std::string_view(descr).substr(1)) : std::nullopt;
  if (!type) {
    throw DataError(text("'{}' has values of type '{}', a number type wanted", name, descr),
                    "convert it first: numpy.save(path, array.astype('float32'))");
  }
  const auto long_dims = std::count_if(header.shape.begin(), header.shape.end(),
                                       [](int64_t size) { return size != 1; });
  if (header.fortran_order && long_dims > 1) {
    throw DataError(text("'{}' is in Fortran order, which is not supported", name),
                    "save it again: numpy.save(path, numpy.ascontiguousarray(array))");
  }
  return *type;
}

/// Position of the header's dict in the file.
struct Extent {
  size_t start;
  size_t size;
};

Extent dictionary_extent(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) != 0) {
    throw DataError(text("'{}' is not a .npy file: it does not start with \\x93NUMPY", name));
  }
  const int version = static_cast<int>(bytes[6]);
  if (version < 1 || version > 3) {
    throw DataError(text("'{}' has .npy version {}, 1 to 3 wanted", name, version));
  }
  const size_t width = version == 1 ? 2 : 4;
  if (bytes.size() < 8 + width) {
    throw DataError(text("'{}' ends inside its .npy header", name));
  }
  size_t size = 0;
  for (size_t i = width; i-- > 0;) size = size << 8 | static_cast<size_t>(bytes[8 + i]);
  if (size > kMaxNpyHeader) {
    throw DataError(
        text("'{}' has a .npy header of {} bytes, at most {} wanted", name, size, kMaxNpyHeader));
  }
  if (bytes.size() < 8 + width + size) {
    throw DataError(text("'{}' ends inside its .npy header", name));
  }
  return {8 + width, size};
}

}  // namespace

Array parse_npy(const SharedBytes& file, const std::string& name) {
  const Extent dictionary = dictionary_extent(file.view, name);
  const char* literal = reinterpret_cast<const char*>(file.view.data()) + dictionary.start;
  const NpyHeader header = LiteralReader({literal, dictionary.size}, name).header();
  const DType type = wanted_type(header, name);
  const auto values = file.view.subspan(dictionary.start + dictionary.size);
  const std::optional<size_t> claimed = claimed_bytes(type, header.shape);
  if (!claimed || *claimed != values.size()) {
    throw DataError(text("'{}' claims {} values of type {}, but has {} bytes", name,
                         to_string(header.shape), name_of(type), values.size()),
                    "the file is truncated or damaged: copy it again");
  }
  const size_t width = size_of(type);
  const bool swap = header.descr[0] == '>' && width > 1;
  const bool aligned = reinterpret_cast<uintptr_t>(values.data()) % width == 0;
  if (!swap && aligned) return Array(type, header.shape, values.data(), file.owner);
  Array out(type, header.shape);
  std::byte* to = out.mutable_data();
  std::copy(values.begin(), values.end(), to);
  for (size_t at = 0; swap && at < values.size(); at += width)
    std::reverse(to + at, to + at + width);
  return out;
}

Array read_npy(const std::string& path) {
  return parse_npy(map_file(path), path);
}

}  // namespace accel
