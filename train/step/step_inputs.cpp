#include "train/step/step_inputs.h"

#include <string>

#include "core/base/text.h"

namespace accel {

OutOfMemory::OutOfMemory(int64_t micro_batch)
    : Error(ExitCode::kMemory,
            text("a micro-batch of {} {} does not fit into memory", micro_batch,
                 micro_batch == 1 ? "sample" : "samples"),
            "make the model or the samples smaller") {}

}  // namespace accel
