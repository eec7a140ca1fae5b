// Checkpoints that PyTorch and Accelerate's FSDP wrote in one and two processes, value by value.
#include <gtest/gtest.h>

#include <charconv>
#include <sstream>

#include "formats/tensors/dcp.h"
#include "formats/tensors/torch_file.h"
#include "formats/tensors/torch_types.h"
#include "tests/unit/formats/golden_file.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::dcp_golden_test {
namespace {

/// Python's repr() of plain values.
std::string repr(const Value& value);

std::string repr_all(const std::vector<Value>& values) {
  std::string out;
  for (const Value& value : values) out += (out.empty() ? "" : ", ") + repr(value);
  return out;
}

struct Repr {
  std::string operator()(const Value::None&) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  }
  std::string operator()(const std::string& text) const { return "'" + text + "'"; }
  std::string operator()(const Value::List& list) const { return "[" + repr_all(list.items) + "]"; }
  std::string operator()(const Value::Tuple& tuple) const {
    return "(" + repr_all(tuple.items) + ")";
  }
  template <class T>
  std::string operator()(const T&) const {
    return "?";
  }
};

std::string repr(const Value& value) {
  return std::visit(Repr(), value.data);
}

/// A line per entry, as make_fsdp_checkpoints.py writes it.
using Table = std::map<std::string, std::string>;

std::string line_of(const Array& array) {
  const auto* data = reinterpret_cast<const Bytef*>(array.data());
  return torch_type(array.type()).dtype + ("\t" + to_string(array.shape())) + "\t" +
         std::to_string(crc32_z(0, array.bytes() ? data : Z_NULL, array.bytes()));
}

Table golden_table(const std::string& file) {
  Table out;
  std::istringstream lines(file);
  for (std::string name, rest; std::getline(lines, name, '\t') && std::getline(lines, rest);) {
    out[name] = rest;
  }
  return out;
}

void add_folder(const std::string& folder, Table& table) {
  const DcpState state =
      read_dcp([&](const std::string& name) { return map_file(folder + "/" + name); });
  for (const auto& [name, array] : state.tensors) table[name] = line_of(array);
  for (const auto& [name, value] : state.objects) table[name] = "object\t" + repr(value);
}

/// Flat names of the values in dicts and lists of dicts, as in a distributed checkpoint.
void add_flat(const std::string& name, const Value& value, Table& table) {
  const auto* list = value.as<Value::List>();
  if (const auto* dict = value.as<Value::Dict>()) {
    for (const auto& [key, item] : dict->items) {
      add_flat(name + "." + *key.as<std::string>(), item, table);
    }
  } else if (list && !list->items.empty() && list->items[0].as<Value::Dict>()) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      add_flat(name + "." + std::to_string(i), list->items[i], table);
    }
  } else if (const auto* array = value.as<Array>()) {
    table[name] = line_of(*array);
  } else {
    table[name] = "object\t" + repr(value);
  }
}

void expect_golden(const std::string& root) {
  for (const std::string name : {"dcp_one", "dcp_two", "fsdp1", "fsdp2", "fsdp_full"}) {
    const std::string folder = root + "/" + name;
    Table read;
    if (name.starts_with("dcp")) {
      add_folder(folder, read);
    } else if (name == "fsdp_full") {
      add_flat("model", read_torch_file(map_file(folder + "/pytorch_model_fsdp.bin")), read);
      add_flat("optimizer", read_torch_file(map_file(folder + "/optimizer.bin")), read);
    } else {
      add_folder(folder + "/pytorch_model_fsdp_0", read);
      add_folder(folder + "/optimizer_0", read);
    }
    const Table wanted = golden_table(file_content(folder + ".tsv"));
    EXPECT_GE(wanted.size(), 6U) << name;
    EXPECT_EQ(read, wanted) << name;
  }
}

int run_python(const std::string& script, const std::string& arguments) {
  const std::string command = std::string(std::getenv("ACCEL_PYTHON")) + " " +
                              std::getenv("ACCEL_SOURCE_DIR") + "/tests/interop/" + script + " " +
                              arguments;
  return std::system(command.c_str());
}

constexpr auto kNoPython = "ACCEL_PYTHON names no Python with torch and accelerate";

TEST(DcpGoldenTest, WhatPyTorchAndAccelerateWroteIsRead) {
  expect_golden(golden_path(""));
}

TEST(DcpGoldenTest, WhatThisMachinesPyTorchAndAccelerateWriteIsRead) {
  if (!std::getenv("ACCEL_PYTHON")) GTEST_SKIP() << kNoPython;
  const TempFolder folder;
  ASSERT_EQ(run_python("make_fsdp_checkpoints.py", folder.path()), 0);
  expect_golden(folder.path());
}

TEST(DcpGoldenTest, PathsSayWhereNamesWereInTheTree) {
  const std::string folder = golden_path("fsdp2/optimizer_0/");
  const DcpState state = read_dcp([&](const std::string& name) { return map_file(folder + name); });
  EXPECT_EQ(repr(Value::Tuple{state.paths.at("optimizer.state.0.weight.exp_avg")}),
            "('optimizer', 'state', '0.weight', 'exp_avg')");
  EXPECT_EQ(repr(Value::Tuple{state.paths.at("optimizer.param_groups.0.betas")}),
            "('optimizer', 'param_groups', 0, 'betas')");
}

/// Reads a golden folder and writes it again as one rank.
void write_again(const std::string& from, const TempFolder& out, const std::string& to) {
  const DcpState state =
      read_dcp([&](const std::string& name) { return map_file(golden_path(from + "/" + name)); });
  std::string data, metadata;
  write_dcp(
      state, [&](ByteSpan bytes) { data += as_text(bytes); },
      [&](ByteSpan bytes) { metadata += as_text(bytes); });
  out.write(to + "/" + kDcpDataFile, data);
  out.write(to + "/" + kDcpMetadataFile, metadata);
}

TEST(DcpGoldenTest, PyTorchAndAccelerateLoadWhatWeWrite) {
  if (!std::getenv("ACCEL_PYTHON")) GTEST_SKIP() << kNoPython;
  const TempFolder folder;
  for (const std::string name :
       {"dcp_one", "dcp_two", "fsdp1/pytorch_model_fsdp_0", "fsdp1/optimizer_0",
        "fsdp2/pytorch_model_fsdp_0", "fsdp2/optimizer_0"}) {
    write_again(name, folder, name);
  }
  EXPECT_EQ(run_python("check_dcp.py", golden_path("") + " " + folder.path()), 0);
}

}  // namespace
}  // namespace accel::dcp_golden_test
