/* The part of a stand-in for libtorch that its symbols have in common; see lazy_torch.h. */
#include <stdlib.h>
#include <unistd.h>

/* That this is here tells the executable that libtorch is not. */
const char accel_torch_stand_in = 1;

void accel_stand_in_called(void) {
  static const char text[] =
      "internal error: libtorch was called but not loaded; please report this\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  abort();
}

/* The names: written by tools/make_stand_in.py, which calls every function accel_stand_in_called.
 */
__asm__(".include \"" ACCEL_SYMBOLS "\"");
