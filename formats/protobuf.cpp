#include "formats/protobuf.h"

#include <bit>

#include "core/base/bytes.h"
#include "core/base/json_text.h"

namespace accel {
namespace {

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

// The wire format is little-endian.
static_assert(std::endian::native == std::endian::little);

template <class T>
std::string_view memory_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

uint64_t read_varint(ByteReader& reader) {
  uint64_t out = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = reader.little<uint8_t>();
    out |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return out;
  }
  throw FormatError("a varint has more than ten bytes");
}

}  // namespace

ProtoMessage& ProtoMessage::varint(int field, uint64_t value) {
  tag(field, kVarint);
  append_varint(value);
  return *this;
}

ProtoMessage& ProtoMessage::number(int field, double value) {
  tag(field, kFixed64);
  encoded_ += memory_of(value);
  return *this;
}

ProtoMessage& ProtoMessage::number(int field, float value) {
  tag(field, kFixed32);
  encoded_ += memory_of(value);
  return *this;
}

ProtoMessage& ProtoMessage::bytes(int field, std::string_view value) {
  tag(field, kBytes);
  append_varint(value.size());
  encoded_ += value;
  return *this;
}

ProtoMessage& ProtoMessage::text(int field, std::string_view value) {
  return bytes(field, valid_utf8(value));
}

ProtoMessage& ProtoMessage::message(int field, const ProtoMessage& value) {
  return bytes(field, value.encoded_);
}

ProtoMessage& ProtoMessage::packed(int field, std::span<const double> values) {
  return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

void ProtoMessage::tag(int field, int wire_type) {
  append_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

void ProtoMessage::append_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) encoded_ += static_cast<char>(value | 0x80);
  encoded_ += static_cast<char>(value);
}

void each_field(std::string_view message, const std::function<void(const ProtoField&)>& use) {
  ByteReader reader(as_bytes(message), "a message");
  while (reader.left() > 0) {
    const uint64_t tag = read_varint(reader);
    ProtoField field{.number = tag >> 3};
    switch (tag & 7) {
      case kVarint:
        field.value = read_varint(reader);
        break;
      case kFixed64:
        field.value = reader.little<uint64_t>();
        break;
      case kBytes: {
        const uint64_t size = read_varint(reader);
        if (size > reader.left()) throw FormatError("a field is longer than its message");
        field.bytes = as_text(reader.take(size));
        field.has_bytes = true;
        break;
      }
      case kFixed32:
        field.value = reader.little<uint32_t>();
        break;
      default:
        throw FormatError("a field has an unknown wire type");
    }
    if (field.number == 0) throw FormatError("a field has the number 0");
    use(field);
  }
}

}  // namespace accel
