// Runs an exported program: its calls in order, over ATen's dispatcher, with autograd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/aten_operand.h"

namespace accel {

/// What a line of the program calls: takes its arguments from the stack and leaves its results.
class AtenCall {
 public:
  virtual ~AtenCall() = default;
  virtual void run(std::vector<c10::IValue>& stack) const = 0;
};

class AtenGraph {
 public:
  /// Finds every operator and readies every constant. Throws Error (kRecipe), which names what
  /// libtorch does not have and who calls it.
  explicit AtenGraph(const Pt2Graph& graph);

  /// `inputs` are the graph's, in order. Values are freed after their last use. Throws Error
  /// (kRecipe) that names the call that failed and its Python module.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs) const;

 private:
  struct Line {
    std::string name, target, module;
    std::unique_ptr<AtenCall> call;
    std::vector<AtenOperand> operands;
    std::vector<Pt2Argument> results;
  };

  static Line make_line(const Pt2Node& node);
  void mark_last_uses();
  void run_line(const Line& line, ValueTable& table, std::vector<c10::IValue>& stack) const;

  std::vector<Line> lines_;
  std::vector<Pt2Argument> inputs_;
  std::vector<AtenOperand> outputs_;
  size_t slots_;
};

}  // namespace accel
