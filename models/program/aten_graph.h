// Interpreter of exported programs: calls in order through ATen's dispatcher, with autograd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "core/api/block.h"
#include "models/program/aten_operand.h"

namespace accel {

/// The callee of a program line: takes arguments from the stack and pushes its results.
class AtenCall {
 public:
  virtual ~AtenCall() = default;
  virtual void run(std::vector<c10::IValue>& stack) const = 0;
};

/// The calls of one item of a Python ModuleList, such as a transformer layer: a unit of activation
/// checkpointing.
class ProgramBlock final : public torch::nn::Module, public Block {};

class AtenGraph {
 public:
  /// Resolves all operators and constants. Throws Error (kRecipe) naming missing operators and
  /// their callers.
  explicit AtenGraph(const Pt2Graph& graph);

  /// `inputs` are the graph's, in order. Values are freed after their last use. Throws Error
  /// (kRecipe) naming the failed call and its Python module.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs) const;

  /// Finds the blocks, whose switches then take effect. Excludes blocks that update statistics or
  /// modify their inputs.
  std::vector<std::shared_ptr<ProgramBlock>> find_blocks();

 private:
  struct Line {
    std::string name, target, module;
    std::unique_ptr<AtenCall> call;
    std::vector<AtenOperand> operands;
    std::vector<Pt2Argument> results;
    std::vector<size_t> written;  ///< slots that it modifies in place
  };

  struct Region {
    size_t begin, end;                            ///< range of lines
    std::vector<std::pair<size_t, bool>> inputs;  ///< slots, and whether this is their only use
    std::vector<size_t> outputs;
    std::shared_ptr<ProgramBlock> block;
  };

  Line make_line(const Pt2Node& node) const;
  void mark_last_uses();
  void run_line(const Line& line, ValueTable& table, std::vector<c10::IValue>& stack) const;
  void run_lines(size_t begin, size_t end, ValueTable& table) const;
  void run_region(const Region& region, ValueTable& table) const;
  /// Whether the lines can be executed twice.
  bool is_pure(size_t begin, size_t end) const;
  Region region_of(size_t begin, size_t end) const;

  std::vector<Line> lines_;
  std::vector<Region> regions_;  ///< in order
  std::vector<Pt2Argument> inputs_;
  std::vector<AtenOperand> outputs_;
  size_t slots_;
};

}  // namespace accel
