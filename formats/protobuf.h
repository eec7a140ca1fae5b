// Encoder of protocol buffer messages: the wire types that the trackers need.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace accel {

/// Builds a message. Fields are written in the order of the calls, zeros included.
class ProtoMessage {
 public:
  ProtoMessage& varint(int field, uint64_t value);
  ProtoMessage& number(int field, double value);
  ProtoMessage& number(int field, float value);
  /// A `bytes` field.
  ProtoMessage& bytes(int field, std::string_view value);
  /// A `string` field; invalid UTF-8 is replaced, because readers refuse it.
  ProtoMessage& text(int field, std::string_view value);
  ProtoMessage& message(int field, const ProtoMessage& value);
  /// A packed `repeated double`.
  ProtoMessage& packed(int field, std::span<const double> values);

  const std::string& encoded() const { return encoded_; }

 private:
  void tag(int field, int wire_type);
  void append_varint(uint64_t value);

  std::string encoded_;
};

}  // namespace accel
