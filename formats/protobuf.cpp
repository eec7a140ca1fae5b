#include "formats/protobuf.h"

#include <bit>

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

}  // namespace accel
