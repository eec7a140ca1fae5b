// Reads of mapped files that fail as errors instead of ending the process.
#pragma once

namespace accel {

/// Runs `read(argument)`. Returns false when a page of a mapped file was not to be had: the disk
/// failed, or the file has shrunk (SIGBUS). `read` only reads and computes: it is left without any
/// destructor having run.
bool survives_bus_error(void (*read)(void* argument), void* argument);

}  // namespace accel
