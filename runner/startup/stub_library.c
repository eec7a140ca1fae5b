/* Stub library of libtorch: the common target of its symbols; see lazy_torch.h. */
#include <stdlib.h>
#include <unistd.h>

/* Its presence shows the executable that libtorch is not loaded. */
const char accel_torch_stub = 1;

void accel_stub_called(void) {
  static const char text[] =
      "internal error: libtorch was called but not loaded; please report this\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  abort();
}

/* The symbols, written by tools/make_stub_library.py: aliases of accel_stub_called. */
__asm__(".include \"" ACCEL_SYMBOLS "\"");
