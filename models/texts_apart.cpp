#include "models/texts_apart.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

namespace accel {

TextsApart texts_apart(const at::Tensor& segments) {
  const int64_t length = segments.size(1);
  const at::Tensor places = at::arange(length, segments.options()).expand_as(segments);
  const at::Tensor begins = segments.slice(1, 1).ne(segments.slice(1, 0, length - 1));
  const at::Tensor first = at::zeros({segments.size(0), 1}, begins.options());
  const at::Tensor starts =
      std::get<0>(at::cat({first, begins}, 1).to(places.scalar_type()).mul(places).cummax(1));
  const at::Tensor same = starts.unsqueeze(2).eq(starts.unsqueeze(1));
  return {places.sub(starts), same.tril().unsqueeze(1)};
}

}  // namespace accel
