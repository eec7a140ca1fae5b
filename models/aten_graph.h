// Runs an exported program: its calls in order, over ATen's dispatcher, with autograd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/aten_operand.h"
#include "models/block.h"

namespace accel {

/// What a line of the program calls: takes its arguments from the stack and leaves its results.
class AtenCall {
 public:
  virtual ~AtenCall() = default;
  virtual void run(std::vector<c10::IValue>& stack) const = 0;
};

/// Calls of one module of a list of Python's, such as a layer of a transformer: they can be
/// computed again in the backward pass.
class ProgramBlock final : public Block {};

class AtenGraph {
 public:
  /// Finds every operator and readies every constant. Throws Error (kRecipe), which names what
  /// libtorch does not have and who calls it.
  explicit AtenGraph(const Pt2Graph& graph);

  /// `inputs` are the graph's, in order. Values are freed after their last use. Throws Error
  /// (kRecipe) that names the call that failed and its Python module.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs) const;

  /// Finds its blocks, which then do as their switches say. Those that count statistics or change
  /// what they were given are left out.
  std::vector<std::shared_ptr<ProgramBlock>> find_blocks();

 private:
  struct Line {
    std::string name, target, module;
    std::unique_ptr<AtenCall> call;
    std::vector<AtenOperand> operands;
    std::vector<Pt2Argument> results;
    std::vector<size_t> written;  ///< slots whose values it changes in place
  };

  struct Region {
    size_t begin, end;                            ///< lines
    std::vector<std::pair<size_t, bool>> inputs;  ///< slots, and whether nothing else uses them
    std::vector<size_t> outputs;
    std::shared_ptr<ProgramBlock> block;
  };

  Line make_line(const Pt2Node& node) const;
  void mark_last_uses();
  void run_line(const Line& line, ValueTable& table, std::vector<c10::IValue>& stack) const;
  void run_lines(size_t begin, size_t end, ValueTable& table) const;
  void run_region(const Region& region, ValueTable& table) const;
  /// Whether the lines can be computed twice.
  bool is_pure(size_t begin, size_t end) const;
  Region region_of(size_t begin, size_t end) const;

  std::vector<Line> lines_;
  std::vector<Region> regions_;  ///< in order
  std::vector<Pt2Argument> inputs_;
  std::vector<AtenOperand> outputs_;
  size_t slots_;
};

}  // namespace accel
