// A strategy around another one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parallel/strategy.h"

namespace accel {

/// Does what `inner` does; strategies of further axes of a mesh override their part of it.
class StrategyAround : public Strategy {
 public:
  explicit StrategyAround(std::unique_ptr<Strategy> inner) : inner_(std::move(inner)) {}

  void begin(const StepLayout& layout) override { inner_->begin(layout); }
  void run_passes(MicroBatchPasses& passes) override { inner_->run_passes(passes); }
  void run_forward(const std::vector<Batch>& batches,
                   const std::function<void(size_t i)>& pass) override {
    inner_->run_forward(batches, pass);
  }
  size_t micro_batch_at(size_t k) const override { return inner_->micro_batch_at(k); }
  void before_pass(bool last) override { inner_->before_pass(last); }
  void after_pass() override { inner_->after_pass(); }
  void finish() override { inner_->finish(); }

  void visit_gradients(std::span<const Parameter> parameters,
                       const GradientVisitor& visit) const override {
    inner_->visit_gradients(parameters, visit);
  }
  void change_gradients(std::span<const Parameter> parameters,
                        const GradientVisitor& change) const override {
    inner_->change_gradients(parameters, change);
  }

  void broadcast_buffers() override { inner_->broadcast_buffers(); }
  std::vector<Parameter> shards_of(std::vector<Parameter> parameters) const override {
    return inner_->shards_of(std::move(parameters));
  }
  void unshard() override { inner_->unshard(); }
  void reshard() override { inner_->reshard(); }
  void refresh_weights() override { inner_->refresh_weights(); }
  void reduce_found_inf(const at::Tensor& found_inf) const override {
    inner_->reduce_found_inf(found_inf);
  }
  bool has_head() const override { return inner_->has_head(); }
  bool syncs_gradients() const override { return inner_->syncs_gradients(); }
  void updated(int64_t step) override { inner_->updated(step); }
  void swap_in_average() override { inner_->swap_in_average(); }
  void restore_local() override { inner_->restore_local(); }
  StateDict state() const override { return inner_->state(); }
  void load(const StateDict& state) override { inner_->load(state); }

 protected:
  Strategy& inner() const { return *inner_; }

 private:
  std::unique_ptr<Strategy> inner_;
};

}  // namespace accel
