// A wall clock that jumps: LD_PRELOAD of a program whose environment has CHAOS_CLOCK, a file with an int64 of nanoseconds, which
// are added to the real time from the next question on. Monotonic clocks stay as they are; so do absolute waits for a moment of
// the wall clock, whose deadlines are turned back into real time. CHAOS_CLOCK_OF, if set, is the only program with that clock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
// Deadlines before 2001 are of a monotonic clock.
#define WALL 1000000000LL

static const volatile int64_t *jump;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("CHAOS_CLOCK"), *only = getenv("CHAOS_CLOCK_OF");
    if (only && strcmp(only, program_invocation_short_name)) return;
    int descriptor = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    void *map = mmap(NULL, sizeof *jump, PROT_READ, MAP_SHARED, descriptor, 0);
    if (map != MAP_FAILED) jump = map;
    close(descriptor);
}

static void move(struct timespec *at, int64_t by) {
    int64_t all = at->tv_sec * SECOND + at->tv_nsec + by;
    at->tv_sec = all / SECOND;
    at->tv_nsec = all % SECOND;
}

static int64_t ahead(void) { return jump ? *jump : 0; }

static void *following(const char *name) { return dlsym(RTLD_NEXT, name); }

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = following("clock_gettime");
    int failed = real(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(at, ahead());
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static struct timespec real_deadline(const struct timespec *given) {
    struct timespec deadline = *given;
    if (deadline.tv_sec > WALL) move(&deadline, -ahead());
    return deadline;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict given) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec deadline = real_deadline(given);
    return real(condition, mutex, &deadline);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict given) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = following("sem_timedwait");
    struct timespec deadline = real_deadline(given);
    return real(semaphore, &deadline);
}
