// SIGBUS handling: failed reads of mapped files as errors.
#pragma once

namespace accel {

/// Runs `read(argument)`. False after SIGBUS: the disk failed, or a mapped file has shrunk. `read`
/// is left by siglongjmp() without destructors, so it must own no resources. From the first call, a
/// SIGBUS elsewhere, such as in weights that are mapped, ends the process with a message and
/// ExitCode::kIo.
bool survives_bus_error(void (*read)(void* argument), void* argument);

}  // namespace accel
