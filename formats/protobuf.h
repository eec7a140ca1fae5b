// Encoder and decoder of protocol buffer messages: the wire types of event files and tokenizers.
#pragma once

#include <cstdint>
#include <functional>
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

/// One field of a message: a number, or the bytes of a string or nested message.
struct ProtoField {
  uint64_t number = 0;  ///< field number
  uint64_t value = 0;
  std::string_view bytes = {};  ///< into the message
  bool has_bytes = false;
};

/// Calls `use` with each field in order. Throws FormatError for an invalid message.
void each_field(std::string_view message, const std::function<void(const ProtoField&)>& use);

}  // namespace accel
