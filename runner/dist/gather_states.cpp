#include "runner/dist/gather_states.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <sstream>
#include <string>

#include "runner/dist/operations.h"

namespace accel {
namespace {

/// Names, types and shapes of the tensors, as they follow one another in bytes_of().
std::string header_of(const StateDict& state) {
  std::ostringstream text;
  text << state.numbers.size() << '\n';
  for (const auto& [name, value] : state.numbers)
    text << name << '\n' << std::hexfloat << value << '\n';
  text << state.tensors.size() << '\n';
  for (const auto& [name, tensor] : state.tensors) {
    text << name << '\n' << static_cast<int>(tensor.scalar_type()) << ' ' << tensor.dim();
    for (const int64_t size : tensor.sizes()) text << ' ' << size;
    text << '\n';
  }
  return text.str();
}

at::Tensor bytes_of(const StateDict& state) {
  std::vector<at::Tensor> parts = {at::empty({0}, at::kByte)};
  for (const auto& [name, tensor] : state.tensors) {
    parts.push_back(tensor.detach().cpu().contiguous().view({-1}).view(at::kByte));
  }
  return at::cat(parts);
}

/// A header with room for the tensors it tells of.
StateDict state_of(const std::string& header) {
  std::istringstream text(header);
  StateDict state;
  std::string name, number;
  const auto count = [&] {
    std::getline(text, number);
    return std::stoll(number);
  };
  for (int64_t left = count(); left > 0; --left) {
    std::getline(text, name);
    std::getline(text, number);
    state.numbers[name] = std::stod(number);
  }
  for (int64_t left = count(); left > 0; --left) {
    std::getline(text, name);
    std::getline(text, number);
    std::istringstream line(number);
    int type = 0;
    int64_t dims = 0;
    line >> type >> dims;
    std::vector<int64_t> shape(static_cast<size_t>(dims));
    for (int64_t& size : shape) line >> size;
    state.tensors[name] = at::empty(shape, static_cast<at::ScalarType>(type));
  }
  return state;
}

/// Fills the tensors of `state` with what bytes_of() made of others of their shapes.
void fill(const StateDict& state, const at::Tensor& bytes) {
  int64_t at = 0;
  for (const auto& [name, tensor] : state.tensors) {
    const auto size = static_cast<int64_t>(tensor.nbytes());
    tensor.view({-1}).view(at::kByte).copy_(bytes.narrow(0, at, size));
    at += size;
  }
}

}  // namespace

std::vector<StateDict> gather_states(Communicator& group, const StateDict& own) {
  const std::vector<std::string> headers = gather_texts(group, header_of(own));
  std::vector<StateDict> all;
  for (int64_t rank = 0; rank < group.world(); ++rank) {
    StateDict theirs = state_of(headers[static_cast<size_t>(rank)]);
    const at::Tensor bytes = bytes_of(rank == group.rank() ? own : theirs);
    if (bytes.numel() > 0) group.broadcast(bytes, rank, "state of a rank");
    if (!group.is_main()) continue;
    fill(theirs, bytes);
    all.push_back(std::move(theirs));
  }
  return all;
}

}  // namespace accel
