/* Counts calls of CUDA's runtime that wait for the device: LD_PRELOAD it; ACCEL_WAITS names the file of the counts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*Call)();

enum { kStream, kDevice, kEvent, kCopy, kCopyToHost, kKinds };
static const char* const kNames[kKinds] = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize",
                                           "cudaMemcpy", "cudaMemcpyAsync to the host"};
static atomic_long g_counts[kKinds];

static Call next(const char* name) { return (Call)dlsym(RTLD_NEXT, name) ?: (Call)dlsym(RTLD_DEFAULT, name); }

/* libcudart is loaded later than this library, so that RTLD_NEXT does not see it. */
static Call runtime(const char* name) {
  void* library = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  Call found = library ? (Call)dlsym(library, name) : NULL;
  return found ? found : next(name);
}

int cudaStreamSynchronize(void* stream) {
  atomic_fetch_add(&g_counts[kStream], 1);
  return ((int (*)(void*))runtime("cudaStreamSynchronize"))(stream);
}
int cudaDeviceSynchronize(void) {
  atomic_fetch_add(&g_counts[kDevice], 1);
  return ((int (*)(void))runtime("cudaDeviceSynchronize"))();
}
int cudaEventSynchronize(void* event) {
  atomic_fetch_add(&g_counts[kEvent], 1);
  return ((int (*)(void*))runtime("cudaEventSynchronize"))(event);
}
int cudaMemcpy(void* to, const void* from, size_t count, int kind) {
  atomic_fetch_add(&g_counts[kCopy], 1);
  return ((int (*)(void*, const void*, size_t, int))runtime("cudaMemcpy"))(to, from, count, kind);
}
int cudaMemcpyAsync(void* to, const void* from, size_t count, int kind, void* stream) {
  if (kind == 2) atomic_fetch_add(&g_counts[kCopyToHost], 1);
  return ((int (*)(void*, const void*, size_t, int, void*))runtime("cudaMemcpyAsync"))(to, from, count, kind, stream);
}

__attribute__((destructor)) static void write_counts(void) {
  const char* path = getenv("ACCEL_WAITS");
  FILE* out = path ? fopen(path, "w") : NULL;
  if (!out) return;
  fprintf(out, "{");
  for (int i = 0; i < kKinds; ++i) fprintf(out, "%s\"%s\": %ld", i ? ", " : "", kNames[i], atomic_load(&g_counts[i]));
  fprintf(out, "}\n");
  fclose(out);
}
