// Fails the n-th call of a kind, for tests of faults: LD_PRELOAD this and call fault_arm() from Python.
// Calls count only if they touch a file below a root folder; allocations, only if native code of the package asks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NONE, WRITE, FSYNC, RENAME, OPEN, MMAP, NEW, THREAD };
enum { HALF = -1, KILL = -2 };

static int kind, how, sticky;
static long at, seen;
static char root[PATH_MAX];

// Fail call number `n` of kind `k` with the error number `h`, or HALF or KILL; with `s`, all later ones too.
void fault_arm(int k, long n, int h, int s, const char *below) {
  strncpy(root, below, sizeof root - 1);
  how = h, sticky = s, at = n;
  __atomic_store_n(&seen, 0, __ATOMIC_SEQ_CST);
  kind = k;
}

// Stop failing, and return how many calls of the kind were seen.
long fault_disarm(void) {
  kind = NONE;
  return seen;
}

static int hit(int k) {
  if (k != kind)
    return 0;
  long now = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
  if (at == 0 || (sticky ? now < at : now != at))
    return 0;
  if (how == KILL)
    kill(getpid(), SIGKILL);
  if (how > 0)
    errno = how;
  return 1;
}

static int below_root(const char *path) { return path && strncmp(path, root, strlen(root)) == 0; }

static int fd_below_root(int fd) {
  char link[64], path[PATH_MAX];
  int saved = errno;
  // snprintf is not needed for a small number.
  char *end = link + sizeof link - 1;
  *end = 0;
  int rest = fd;
  do
    *--end = (char)('0' + rest % 10);
  while (rest /= 10);
  const char *prefix = "/proc/self/fd/";
  end -= strlen(prefix);
  memcpy(end, prefix, strlen(prefix));
  ssize_t size = readlink(end, path, sizeof path - 1);
  errno = saved;
  if (size < 0)
    return 0;
  path[size] = 0;
  return below_root(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
  static __typeof__(&write) real;
  if (!real)
    real = REAL(write);
  if (kind == WRITE && fd >= 0 && fd_below_root(fd) && hit(WRITE)) {
    if (how != HALF)
      return -1;
    how = ENOSPC, sticky = 1;
    if (size > 1)
      return real(fd, data, size / 2);
    errno = ENOSPC;
    return -1;
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  static __typeof__(&fsync) real;
  if (!real)
    real = REAL(fsync);
  return kind == FSYNC && fd_below_root(fd) && hit(FSYNC) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
  static __typeof__(&rename) real;
  if (!real)
    real = REAL(rename);
  return kind == RENAME && below_root(to) && hit(RENAME) ? -1 : real(from, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  static __typeof__(&renameat2) real;
  if (!real)
    real = REAL(renameat2);
  return kind == RENAME && below_root(to) && hit(RENAME) ? -1 : real(a, from, b, to, flags);
}

#define OPEN_LIKE(name)                                                                                                \
  int name(const char *path, int flags, ...) {                                                                         \
    static int (*real)(const char *, int, ...);                                                                        \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode_t mode = va_arg(rest, mode_t);                                                                                \
    va_end(rest);                                                                                                      \
    if (!real)                                                                                                         \
      real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                                                 \
    return kind == OPEN && below_root(path) && hit(OPEN) ? -1 : real(path, flags, mode);                               \
  }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define MMAP_LIKE(name)                                                                                                \
  void *name(void *where, size_t size, int access, int flags, int fd, off_t offset) {                                  \
    static void *(*real)(void *, size_t, int, int, int, off_t);                                                        \
    if (!real)                                                                                                         \
      real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, #name);                                 \
    return kind == MMAP && fd >= 0 && fd_below_root(fd) && hit(MMAP) ? MAP_FAILED                                      \
                                                                      : real(where, size, access, flags, fd, offset);  \
  }
MMAP_LIKE(mmap)
MMAP_LIKE(mmap64)

// operator new: the n-th allocation of native code is made so large that it throws std::bad_alloc.
static int from_native(void *caller) {
  Dl_info info;
  return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "_native");
}

#define NEW_LIKE(name)                                                                                                 \
  void *name(size_t size) {                                                                                            \
    static void *(*real)(size_t);                                                                                      \
    if (!real)                                                                                                         \
      real = (void *(*)(size_t))dlsym(RTLD_NEXT, #name);                                                               \
    if (kind == NEW && from_native(__builtin_return_address(0)) && hit(NEW))                                           \
      size = SIZE_MAX / 2 - 64;                                                                                        \
    return real(size);                                                                                                 \
  }
NEW_LIKE(_Znwm)
NEW_LIKE(_Znam)

int pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument) {
  static int (*real)(void *, const void *, void *(*)(void *), void *);
  if (!real)
    real = (int (*)(void *, const void *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
  return kind == THREAD && hit(THREAD) ? EAGAIN : real(thread, attributes, start, argument);
}
