// Pickles: exact bytes, values read, and refused opcodes and expansions.
#include "formats/tensors/pickle.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/formats/written.h"

namespace accel::pickle_test {
namespace {

using namespace std::string_literals;

bool any_global(const Value::Global&) {
  return true;
}
bool no_global(const Value::Global&) {
  return false;
}

/// A value, similar to its Python repr().
std::string shown(const Value& value);

std::string shown_all(const std::vector<Value>& values) {
  std::string out;
  for (const Value& value : values) out += (out.empty() ? "" : ", ") + shown(value);
  return out;
}

struct ShowValue {
  std::string operator()(const Value::None&) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(value); }
  std::string operator()(const std::string& text) const { return "'" + text + "'"; }
  std::string operator()(const Value::List& list) const {
    return "[" + shown_all(list.items) + "]";
  }
  std::string operator()(const Value::Tuple& list) const {
    return "(" + shown_all(list.items) + ")";
  }
  std::string operator()(const Value::Dict& dict) const {
    std::string out;
    for (const auto& [key, value] : dict.items) {
      out += (out.empty() ? "" : ", ") + shown(key) + ": " + shown(value);
    }
    return "{" + out + "}";
  }
  std::string operator()(const Value::Global& global) const {
    return global.module + "." + global.name;
  }
  std::string operator()(const Value::Call& call) const {
    return (*this)(call.callable) + "(" + shown_all(call.arguments) + ")" +
           (call.state.empty() ? "" : " with " + shown(call.state[0]));
  }
  std::string operator()(const Value::Persistent& id) const { return "<" + shown_all(id.id) + ">"; }
  std::string operator()(const Array&) const { return "array"; }
};

std::string shown(const Value& value) {
  return std::visit(ShowValue(), value.data);
}

std::string read_text(const std::string& pickle, const GlobalFilter& allowed = any_global) {
  return shown(read_pickle(as_bytes(pickle), {allowed}));
}

std::string fault_of(const std::string& pickle, const GlobalFilter& allowed = any_global) {
  return format_fault([&] { read_pickle(as_bytes(pickle), {allowed}); });
}

TEST(PickleTest, BytesAreProtocol2WithoutAMemo) {
  Value::Dict dict;
  dict.items.emplace_back("a", Value::List{{1, true, {}, -0.5}});
  dict.items.emplace_back(2, Value::Tuple{});
  EXPECT_EQ(write_pickle(dict),
            "\x80\x02}(X\x01\0\0\0a](K\x01\x88NG\xbf\xe0\0\0\0\0\0\0eK\x02)u."s);
}

TEST(PickleTest, ValuesComeBack) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Value::List numbers;
  for (const int64_t n :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{65535}, int64_t{65536}, int64_t{2147483647},
        int64_t{2147483648}, int64_t{-1}, int64_t{-2147483648}, int64_t{-2147483649}, kMin, kMax}) {
    numbers.items.emplace_back(n);
  }
  Value::Dict dict;
  dict.items.emplace_back("numbers", numbers);
  dict.items.emplace_back("texts", Value::Tuple{{"", "é\n\0x"s}});
  dict.items.emplace_back("empty", Value::List{{Value::List{}, Value::Dict{}, Value::Tuple{}}});
  dict.items.emplace_back("call", Value::Call{{"m", "f"}, {1, Value::Global{"n", "g"}}});
  dict.items.emplace_back("outside", Value::Persistent{{"storage", 1}});
  EXPECT_EQ(read_text(write_pickle(dict)), shown(dict));
}

TEST(PickleTest, DoublesKeepEveryBit) {
  for (const double value : {0.1, -0.0, 5e-324, std::numeric_limits<double>::infinity()}) {
    const Value back = read_pickle(as_bytes(write_pickle(value)), {no_global});
    EXPECT_EQ(std::bit_cast<uint64_t>(*back.as<double>()), std::bit_cast<uint64_t>(value));
  }
}

TEST(PickleTest, AnArrayNeedsATorchFile) {
  EXPECT_THROW(write_pickle(Array::label(1)), std::invalid_argument);
}

/// NEWOBJ and BUILD, as of a class without __reduce__.
TEST(PickleTest, ObjectsOfAllowedClassesAreCalls) {
  const std::string pickle =
      "\x80\x02"
      "cm\nn\n)\x81}X\x01\0\0\0kK\x01sb."s;
  EXPECT_EQ(read_text(pickle), "m.n()");
  EXPECT_EQ(fault_of(pickle, no_global), "the pickle names 'm.n', which is not an allowed class");
}

TEST(PickleTest, WhatPythonWritesIsRead) {
  const std::pair<std::string, std::string> cases[] = {
      // pickle.dumps({"a": [1, 2], "b": (1,), "c": x, "d": x} with x = [], protocol 2)
      {"\x80\x02}q\0(X\x01\0\0\0aq\x01]q\x02(K\x01K\x02"
       "eX\x01\0\0\0bq\x03K\x01\x85q\x04X\x01\0\0\0c"
       "q\x05]q\x06X\x01\0\0\0dq\x07h\x06u."s,
       "{'a': [1, 2], 'b': (1), 'c': [], 'd': []}"},
      // OrderedDict(a=1) with an attribute, as a state_dict has `_metadata`
      {"\x80\x02"
       "ccollections\nOrderedDict\nq\0)Rq\x01X\x01\0\0\0aq\x02K\x01s}q\x03X\x01\0\0\0mq\x04"
       "K\x02sb."s,
       "{'a': 1}"},
      {"\x80\x02\x8a\x05\xff\xff\xff\xff\0."s, "4294967295"},
      {"\x80\x02\x8a\0."s, "0"},
      {"\x80\x02\x8a\x01\xff."s, "-1"},
      {"\x80\x02K\x01r\0\0\0\0j\0\0\0\0\x86."s, "(1, 1)"},
      {"\x80\x02]K\x01"
       "aK\x02"
       "a."s,
       "[1, 2]"},
  };
  for (const auto& [pickle, text] : cases) EXPECT_EQ(read_text(pickle), text);
}

TEST(PickleTest, AListFilledAfterItWasSharedIsFullInBothPlaces) {
  // x = []; [x, x] with x.append(1) between the two
  EXPECT_EQ(read_text("\x80\x02(]q\0K\x01"
                      "ah\0t."s),
            "([1], [1])");
}

TEST(PickleTest, ALaterKeyReplacesAnEarlierOne) {
  const Value value =
      read_pickle(as_bytes("\x80\x02}(X\x01\0\0\0aK\x01X\x01\0\0\0aK\x02u."s), {no_global});
  EXPECT_EQ(shown(*value.find("a")), "2");
  EXPECT_EQ(value.find("b"), nullptr);
  EXPECT_EQ(Value(1).find("a"), nullptr);
}

TEST(PickleTest, GlobalsOutsideTheListAreNamed) {
  EXPECT_EQ(fault_of("\x80\x02"
                     "cos\nsystem\nX\x02\0\0\0ls\x85R."s,
                     no_global),
            "the pickle names 'os.system', which is not an allowed class");
}

constexpr auto kTooMuch = "the pickle expands to far more memory than the file's size";

struct Hostile {
  std::string body;  ///< after the two bytes that name the protocol
  std::string message;
};

void expect_refused(const std::vector<Hostile>& cases) {
  for (const auto& [body, message] : cases) {
    EXPECT_EQ(fault_of("\x80\x02" + body), message) << body.substr(0, 20);
  }
}

TEST(PickleTest, StreamsThatMisuseTheStackAreRefused) {
  const std::string underflow = "the pickle pops from an empty stack";
  const std::string no_mark = "the pickle pops a missing mark";
  const std::string unsent_summary = "the pickle ends with unused values";
  const std::string no_tuple = "the pickle has arguments that are not a tuple";
  expect_refused({
      {".", unsent_summary},
      {"NN.", unsent_summary},
      {"(N.", unsent_summary},
      {"N.N", "the pickle has bytes after its end"},
      {"a.", underflow},
      {"Na.", underflow},
      {"]N(a.", underflow},
      {"\x87.", underflow},
      {"q\0."s, underflow},
      {"t.", no_mark},
      {"e.", no_mark},
      {"u.", no_mark},
      {"NNa.", "the pickle appends to a value that is not a list"},
      {"NNNs.", "the pickle sets items of a value that is not a dict"},
      {"}(Nu.", "the pickle has a key without a value"},
      {"N)R.", "the pickle calls a value that is not a class"},
      {"cm\nf\nNR.", no_tuple},
      {"NQ.", no_tuple},
      {"ccollections\nOrderedDict\nN\x85R.", "the pickle builds an OrderedDict from arguments"},
      {"Nq\x01.", "the pickle's memo skips ahead"},
      {"Nr\xff\xff\xff\x7f.", "the pickle's memo skips ahead"},
      {"h\0."s, "the pickle reads an empty memo slot"},
  });
}

TEST(PickleTest, StreamsThatClaimOrNestTooMuchAreRefused) {
  const auto early = [](int64_t want, int left) {
    return "the pickle ends early: " + std::to_string(want) + " more bytes wanted, " +
           std::to_string(left) + " are left";
  };
  const std::string circle = "the pickle is nested too deeply or has a cycle";
  expect_refused({
      {"", early(1, 0)},
      {"X\xff\xff\xff\xffz.", early(4294967295, 2)},
      {"\x8a\xff\x01.", early(255, 2)},
      {"cm\nf", early(1, 0)},
      {"\x80\x04N.", "the pickle has protocol 4, 2 wanted"},
      {"\x8a\x09\1\2\3\4\5\6\7\x08\x09.", "the pickle has a number beyond 64 bits"},
      {"\x8b\x01.", "the pickle has the unsupported opcode 0x8b"},
      {"i", "the pickle has the unsupported opcode 0x69"},
      {"]q\0h\0a."s, circle},
      {std::string(100'000, ']') + std::string(99'999, 'a') + ".", circle},
      {std::string(100'001, 'N'), "the pickle exceeds the stack limit"},
      {std::string(100'001, '('), "the pickle exceeds the stack limit"},
  });
}

TEST(PickleTest, SharedPartsThatUnfoldWithoutEndAreRefused) {
  // Each list has the previous one ten times: 10^20 values from a few hundred bytes.
  std::string pickle = "\x80\x02]q"s + '\0';
  for (char level = 0; level < 20; ++level) {
    pickle += "](";
    for (int i = 0; i < 10; ++i) pickle += std::string("h") + level;
    pickle += std::string("eq") + static_cast<char>(level + 1);
  }
  pickle = "\x80\x02(" + pickle.substr(2) + "t.";
  EXPECT_EQ(fault_of(pickle), kTooMuch);
}

std::string repeated(const std::string& part, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

TEST(PickleTest, LongListsAndDictsAreWrittenInBatches) {
  const Value::List list{std::vector<Value>(1001)};
  EXPECT_EQ(write_pickle(list), "\x80\x02](" + repeated("N", 1000) + "e(Ne.");
  const Value::Dict dict{std::vector<std::pair<Value, Value>>(2000)};
  EXPECT_EQ(write_pickle(dict),
            "\x80\x02}(" + repeated("NN", 1000) + "u(" + repeated("NN", 1000) + "u.");
}

TEST(PickleTest, BytesThatGrowManifoldInMemoryAreRefused) {
  constexpr size_t kTimes = 1 << 20;
  expect_refused({
      {"]" + repeated("Na", kTimes) + ".", kTooMuch},
      {"]" + repeated("Na", 4 * kTimes) + "s.", kTooMuch},
      {"}" + repeated("NNs", kTimes) + ".", kTooMuch},
      {"N" + std::string(4 * kTimes, '\x85') + ".", kTooMuch},
      // A list of 50,000 values, forty times in another.
      {"](" + repeated("N", 50'000) + "eq\0("s + repeated("h\0"s, 40) + "t\x86.", kTooMuch},
      // A string of 1 MiB, sixty times.
      {"X\0\0\x10\0"s + std::string(1 << 20, 'x') + "q\0("s + repeated("h\0"s, 60) + "t\x86.",
       kTooMuch},
  });
}

std::string read_protocol_4(const std::string& body, bool keep_state = true) {
  return shown(read_pickle(as_bytes("\x80\x04" + body), {any_global, 4, keep_state}));
}

TEST(PickleTest, Protocol4IsReadWhereItIsAskedFor) {
  const std::pair<std::string, std::string> cases[] = {
      // pickle.dumps(("ab", b"cd"), protocol=4)
      {"\x95\x0d\0\0\0\0\0\0\0\x8c\x02"
       "ab\x94"
       "C\x02"
       "cd\x94\x86\x94."s,
       "('ab', 'cd')"},
      {"\x8c\x01"
       "a\x94h\0\x86."s,
       "('a', 'a')"},
      {"\x8d\x02\0\0\0\0\0\0\0xy."s, "'xy'"},
      {"\x8e\x02\0\0\0\0\0\0\0xy."s, "'xy'"},
      {"B\x02\0\0\0xy."s, "'xy'"},
      {"\x8c\1m\x8c\1n\x93."s, "m.n"},
      {"\x8c\1m\x8c\1n\x93K\x05\x85R."s, "m.n(5)"},
  };
  for (const auto& [body, text] : cases) EXPECT_EQ(read_protocol_4(body), text);
}

TEST(PickleTest, TheStateOfAnObjectIsKeptWhereItIsAskedFor) {
  const std::string body = "\x8c\1m\x8c\1n\x93)\x81}\x8c\1kK\1sb."s;
  EXPECT_EQ(read_protocol_4(body), "m.n() with {'k': 1}");
  EXPECT_EQ(read_protocol_4(body, false), "m.n()");
  EXPECT_EQ(read_protocol_4("\x8c\1m\x8c\1n\x93)\x81K\1bK\2b."), "m.n() with 2");
  EXPECT_EQ(read_protocol_4("}K\1b."), "{}");  // an OrderedDict's attributes
}

TEST(PickleTest, Protocol4StreamsThatLieAreRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x95\x03\0\0\0\0\0\0\0N."s, "the pickle has a frame beyond its end"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.",
       "the pickle ends early: 18446744073709551615 more bytes wanted, 2 are left"},
      {"K\1\x8c\1n\x93.", "the pickle names a class by a value that is not a string"},
      {"\x93.", "the pickle pops from an empty stack"},
      {"\x94.", "the pickle pops from an empty stack"},
      {"\x8c\1m\x8c\1n\x93)\x81\x94h\0b."s, "the pickle is nested too deeply or has a cycle"},
      {"\x8f.", "the pickle has the unsupported opcode 0x8f"},
      {"\x80\x02N.", "the pickle has protocol 2, 4 wanted"},
  };
  for (const auto& [body, message] : cases) {
    EXPECT_EQ(format_fault([&bytes = body] { read_protocol_4(bytes); }), message);
  }
  EXPECT_EQ(fault_of("\x80\x02\x8c\1a."s), "the pickle has the unsupported opcode 0x8c");
}

TEST(PickleTest, EveryTruncationIsRefused) {
  Value::Dict dict;
  dict.items.emplace_back("a", Value::List{{1, 70000, 1e10, Value::Global{"m", "n"}}});
  const std::string pickle = write_pickle(dict);
  for (size_t keep = 0; keep < pickle.size(); ++keep) {
    EXPECT_NE(fault_of(pickle.substr(0, keep)), "") << keep;
  }
}

}  // namespace
}  // namespace accel::pickle_test
