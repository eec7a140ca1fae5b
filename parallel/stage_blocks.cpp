#include "parallel/stage_blocks.h"

#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// Ends a pass after the last block of its stage. No std::exception, which a task may catch.
struct StageEnd {};

[[noreturn]] void refuse_repeated() {
  throw Error(ExitCode::kRecipe,
              "a pipeline needs one forward pass of the model for each micro-batch",
              "leave 'accelerator.parallelism.pp' out with this task");
}

}  // namespace

class StageBlocks::Position final : public BlockStage {
 public:
  Position(StageBlocks& owner, int64_t stage, bool begins, bool ends)
      : owner_(owner), stage_(stage), begins_(begins), ends_(ends) {}

  at::Tensor received() override {
    if (owner_.current_ < 0) {
      throw std::logic_error("a model that is divided into pipeline stages runs outside of them");
    }
    if (owner_.entered_ > 0) refuse_repeated();
    return owner_.received_;
  }

  bool enter(const at::Tensor& input) override {
    if (stage_ != owner_.current_) return false;
    if (begins_ && owner_.entered_++ > 0) refuse_repeated();
    if (begins_) owner_.pass_.input = input;
    return true;
  }

  void leave(const at::Tensor& output) override {
    if (!ends_ || stage_ + 1 == owner_.stages_) return;
    owner_.pass_.output = output;
    throw StageEnd{};
  }

 private:
  StageBlocks& owner_;
  int64_t stage_;
  bool begins_, ends_;  ///< the first and the last block of its stage
};

StageBlocks::StageBlocks(const std::vector<Block*>& blocks, const std::vector<int64_t>& sizes)
    : blocks_(blocks), stages_(static_cast<int64_t>(sizes.size())) {
  auto block = blocks_.begin();
  for (int64_t stage = 0; stage < stages_; ++stage) {
    const int64_t size = sizes[static_cast<size_t>(stage)];
    for (int64_t i = 0; i < size; ++i, ++block) {
      positions_.emplace_back(*this, stage, i == 0, i + 1 == size);
      (*block)->set_stage(&positions_.back());
    }
  }
}

StageBlocks::~StageBlocks() {
  for (Block* const block : blocks_) block->set_stage(nullptr);
}

StagePass StageBlocks::run(int64_t stage, const at::Tensor& received,
                           const std::function<void()>& pass) {
  const struct Current {
    explicit Current(StageBlocks& blocks) : blocks(blocks) {}
    ~Current() {
      blocks.current_ = -1;
      blocks.received_.reset();
      blocks.pass_ = {};
    }
    StageBlocks& blocks;
  } current(*this);
  current_ = stage;
  entered_ = 0;
  received_ = received;
  try {
    pass();
  } catch (const StageEnd&) {
    return std::exchange(pass_, {});
  }
  if (entered_ == 0 || stage + 1 < stages_) {
    throw Error(ExitCode::kRecipe,
                text("a micro-batch does not run the blocks of pipeline stage {}", stage),
                "leave 'accelerator.parallelism.pp' out with this task");
  }
  return std::exchange(pass_, {});
}

}  // namespace accel
