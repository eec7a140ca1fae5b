// Setup of the process before the command line is read, and the check of its output at the end.
#pragma once

namespace accel {

/// A std::bad_alloc that nothing catches ends the process with an error line and exit code 8; other
/// exceptions abort as before. Allocates nothing: libraries may still be uninitialized.
void report_uncaught_bad_alloc();

/// Opens /dev/null on standard descriptors that are closed, before a file gets their number, and
/// ignores SIGXFSZ: a write beyond the file-size limit then fails with EFBIG.
void prepare_process();

/// Throws IoError unless the working folder exists.
void require_working_folder();

/// Flushes standard output. Throws IoError if a write to it failed; not if its reader has closed
/// it.
void finish_output();

/// The destructors of static objects run at exit: a plugin may rely on its own.
void keep_static_destructors();

/// Exits without the destructors of static objects, of which libtorch's alone take a fifth of a
/// short run. Returns where others may rely on them: after keep_static_destructors(), and beside
/// libraries of LD_PRELOAD, such as profilers.
void exit_without_static_destructors(int code);

}  // namespace accel
