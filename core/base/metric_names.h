// Names of metrics and operators: which direction is better, and titles for readers.
#pragma once

#include <string>

namespace accel {

/// Whether lower values of a metric such as "eval/loss" are better, by its name: losses, errors and
/// perplexities.
bool lower_is_better(const std::string& metric);

/// "Learning rate" of "train/lr", "Eval macro f1" of "eval/macro_f1"; other names are unchanged.
std::string metric_title(const std::string& metric);

/// C++ autograd nodes as PyTorch names those of Python: "MaxPool2dBackward" of
/// "torch::autograd::CppNode<accel::(anonymous namespace)::MaxPool2d>". Other names are unchanged.
std::string readable_operator(const std::string& name);

}  // namespace accel
