// Linked into every program by lockstep-cc: the entry point for `lockstep mpi`, direct execution as
// one rank, and replacements of C library functions that would end a rank or bypass lockstep.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/image/image.h"
#include "mpi/image/stand_in.h"
#include "mpi/image/synchronises.h"  // made of synchronises.txt

extern void *__dso_handle;
extern void __cxa_finalize(void *library);

// Destructors of atexit and of static objects, while they belong to the rank.
static void ls_mpi_image_end(void) {
    __cxa_finalize(&__dso_handle);
}

extern int main(int argc, char **argv, char **environment);

__attribute__((visibility("default"))) int ls_mpi_image_main(int argc, char **argv,
                                                             char **environment) {
    int status = main(argc, argv, environment);
    ls_mpi_image_end();
    return status;
}

// ---- Direct execution: a run of one rank --------------------------------------------------------
#if defined(__x86_64__)
__attribute__((used, section(".interp"))) static const char interpreter[] =
    "/lib64/ld-linux-x86-64.so.2";
#elif defined(__aarch64__)
__attribute__((used, section(".interp"))) static const char interpreter[] =
    "/lib/ld-linux-aarch64.so.1";
#endif

#define ARGUMENTS_MAX 4096

#if defined(__x86_64__)
__attribute__((force_align_arg_pointer))
#endif
__attribute__((used, noreturn, visibility("hidden"))) void
ls_mpi_image_start(void) {
    static char text[1 << 20], self[4096];
    static char *words[ARGUMENTS_MAX + 8];
    static char mpi[] = "mpi", n[] = "-n", one[] = "1", dashes[] = "--",
                program[] = LOCKSTEP_PROGRAM;
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    ssize_t path = readlink("/proc/self/exe", self, sizeof self - 1);
    char *given = getenv("LOCKSTEP");
    int count = 0;
    words[count++] = given != NULL ? given : program;
    words[count++] = mpi;
    words[count++] = n;
    words[count++] = one;
    words[count++] = self;
    words[count++] = dashes;
    self[path > 0 ? path : 0] = 0;
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(text + at) + 1) {
        if (at > 0 && count < ARGUMENTS_MAX) {
            words[count++] = text + at;
        }
    }
    words[count] = NULL;
    (void)execvp(words[0], words);
    (void)execvp("lockstep", words);
    (void)fprintf(stderr, "%s: run it as: lockstep mpi -n RANKS %s (%s)\n", self, self,
                  strerror(errno));
    _exit(127);
}

// ---- Ends of a program --------------------------------------------------------------------------
void __wrap_exit(int status) __attribute__((noreturn));
void __wrap_exit(int status) {
    ls_mpi_image_end();
    ls_mpi_exit(status, 0);
    __builtin_unreachable();
}

void __wrap__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) {
    ls_mpi_exit(status, 1);
    __builtin_unreachable();
}

void __wrap__Exit(int status) __attribute__((noreturn));
void __wrap__Exit(int status) {
    __wrap__exit(status);
}

void __wrap_quick_exit(int status) __attribute__((noreturn));
void __wrap_quick_exit(int status) {
    __wrap__exit(status);
}

void __wrap_verr(int status, const char *format, va_list args) __attribute__((noreturn));
void __wrap_verr(int status, const char *format, va_list args) {
    vwarn(format, args);
    __wrap_exit(status);
}

void __wrap_verrx(int status, const char *format, va_list args) __attribute__((noreturn));
void __wrap_verrx(int status, const char *format, va_list args) {
    vwarnx(format, args);
    __wrap_exit(status);
}

void __wrap_err(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_err(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    __wrap_verr(status, format, args);
}

void __wrap_errx(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_errx(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    __wrap_verrx(status, format, args);
}

void __wrap_error(int status, int number, const char *format, ...);
void __wrap_error(int status, int number, const char *format, ...) {
    va_list args;
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s: ", program_invocation_name);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "%s%s\n", number != 0 ? ": " : "", number != 0 ? strerror(number) : "");
    if (status != 0) {
        __wrap_exit(status);
    }
}

// ---- Libraries that the program opens: a copy for each rank -------------------------------------
// Also those that it has opened find this function, not the C library's.
__attribute__((visibility("default"))) void *dlopen(const char *path, int mode) {
    return ls_mpi_open_library(path, mode, (const void *)(uintptr_t)&ls_mpi_image_main);
}

// ---- The lock of OpenMP's unnamed critical sections: libgomp has one for all ranks --------------
static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER;

void __wrap_GOMP_critical_start(void);
void __wrap_GOMP_critical_start(void) {
    ls_mpi_synchronises();
    (void)pthread_mutex_lock(&critical);
}

void __wrap_GOMP_critical_end(void);
void __wrap_GOMP_critical_end(void) {
    ls_mpi_synchronises();
    (void)pthread_mutex_unlock(&critical);
}

// ---- Standard streams: all ranks print to one, each to its own file -----------------------------
static bool is_standard(const FILE *file) {
    return file == stdin || file == stdout || file == stderr;
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file) {
    if (!is_standard(file)) {
        return __real_fclose(file);
    }
    int status = fflush(file);
    return close(fileno(file)) == 0 ? status : EOF;
}

// Another rank must not write this rank's output.
FILE *__real_freopen(const char *path, const char *mode, FILE *file);
FILE *__wrap_freopen(const char *path, const char *mode, FILE *file);
FILE *__wrap_freopen(const char *path, const char *mode, FILE *file) {
    FILE *opened = __real_freopen(path, mode, file);
    if (opened != NULL && is_standard(opened)) {
        (void)setvbuf(opened, NULL, _IONBF, 0);
    }
    return opened;
}

int __real_dup2(int from, int to);
int __wrap_dup2(int from, int to);
int __wrap_dup2(int from, int to) {
    if (to == STDOUT_FILENO) {
        (void)fflush(stdout);
        (void)setvbuf(stdout, NULL, _IONBF, 0);
    }
    return __real_dup2(from, to);
}

// ---- Memory that the C library touches ----------------------------------------------------------
// These stand in where the program's reads and writes are watched, and the others are there.
__attribute__((weak)) void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    ls_mpi_accessed(from, bytes, 0, __builtin_return_address(0));
    ls_mpi_accessed(to, bytes, 1, __builtin_return_address(0));
    return __real_memcpy(to, from, bytes);
}

__attribute__((weak)) void *__real_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes) {
    ls_mpi_accessed(from, bytes, 0, __builtin_return_address(0));
    ls_mpi_accessed(to, bytes, 1, __builtin_return_address(0));
    return __real_memmove(to, from, bytes);
}

__attribute__((weak)) void *__real_memset(void *to, int value, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes) {
    ls_mpi_accessed(to, bytes, 1, __builtin_return_address(0));
    return __real_memset(to, value, bytes);
}

// ---- Memory that the program allocates ----------------------------------------------------------
#define HERE __builtin_return_address(0)

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
static void *allocate(size_t bytes, const void *caller) {
    bool fits = bytes <= SIZE_MAX - LS_MPI_GUARD;
    return ls_mpi_allocated(__real_malloc(fits ? bytes + LS_MPI_GUARD : bytes), bytes, 1, caller);
}

void *__wrap_malloc(size_t bytes) {
    return allocate(bytes, HERE);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all) || all > SIZE_MAX - LS_MPI_GUARD) {
        return __real_calloc(count, bytes);
    }
    return ls_mpi_allocated(__real_calloc(1, all + LS_MPI_GUARD), all, 1, HERE);
}

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
static void *reallocate(void *at, size_t bytes, const void *caller) {
    if (at == NULL) {
        return allocate(bytes, caller);
    }
    size_t room = ls_mpi_room(at, caller);
    if (ls_mpi_freed(at, 0, caller) != 0) {
        void *copy = bytes > 0 ? allocate(bytes, caller) : NULL;
        if (copy != NULL) {
            (void)mempcpy(copy, at, room < bytes ? room : bytes);
        }
        return copy;
    }
    if (bytes == 0 || bytes > SIZE_MAX - LS_MPI_GUARD) {
        return __real_realloc(at, bytes);
    }
    return ls_mpi_allocated(__real_realloc(at, bytes + LS_MPI_GUARD), bytes, 1, caller);
}

void *__wrap_realloc(void *at, size_t bytes) {
    return reallocate(at, bytes, HERE);
}

void *__wrap_reallocarray(void *at, size_t count, size_t bytes);
void *__wrap_reallocarray(void *at, size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return reallocate(at, all, HERE);
}

void *__real_memalign(size_t alignment, size_t bytes);
void *__wrap_memalign(size_t alignment, size_t bytes);
void *__wrap_memalign(size_t alignment, size_t bytes) {
    bool fits = bytes <= SIZE_MAX - LS_MPI_GUARD;
    return ls_mpi_allocated(__real_memalign(alignment, fits ? bytes + LS_MPI_GUARD : bytes), bytes,
                            1, HERE);
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    bool fits = bytes <= SIZE_MAX - LS_MPI_GUARD;
    return ls_mpi_allocated(__real_aligned_alloc(alignment, fits ? bytes + LS_MPI_GUARD : bytes),
                            bytes, 1, HERE);
}

int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes) {
    bool fits = bytes <= SIZE_MAX - LS_MPI_GUARD;
    int status = __real_posix_memalign(out, alignment, fits ? bytes + LS_MPI_GUARD : bytes);
    if (status == 0) {
        (void)ls_mpi_allocated(*out, bytes, 1, HERE);
    }
    return status;
}

static char *duplicate(const char *text, size_t length, const void *caller) {
    char *made = allocate(length + 1, caller);
    if (made != NULL) {
        (void)mempcpy(made, text, length);  // nothing replaces this
        made[length] = 0;
    }
    return made;
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) {
    return duplicate(text, strlen(text), HERE);
}

char *__wrap_strndup(const char *text, size_t most);
char *__wrap_strndup(const char *text, size_t most) {
    return duplicate(text, strnlen(text, most), HERE);
}

// getline grows the buffer itself
#define LINES(name, parameters, ...)                                                               \
    ssize_t __real_##name parameters;                                                              \
    ssize_t __wrap_##name parameters;                                                              \
    ssize_t __wrap_##name parameters {                                                             \
        ls_mpi_forget(*line, HERE);                                                                \
        return __real_##name(__VA_ARGS__);                                                         \
    }
LINES(getline, (char **line, size_t *room, FILE *file), line, room, file)
LINES(getdelim, (char **line, size_t *room, int end, FILE *file), line, room, end, file)
LINES(__getdelim, (char **line, size_t *room, int end, FILE *file), line, room, end, file)

size_t __wrap_malloc_usable_size(void *at);
size_t __wrap_malloc_usable_size(void *at) {
    return at != NULL ? ls_mpi_room(at, HERE) : 0;
}

void __real_free(void *at);
void __wrap_free(void *at);
void __wrap_free(void *at) {
    if (ls_mpi_freed(at, 1, HERE) == 0) {
        __real_free(at);
    }
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes) {
    return ls_mpi_unmapped(at, bytes, __builtin_return_address(0)) != 0 ? 0
                                                                        : __real_munmap(at, bytes);
}

// operator new and delete of C++; a C program has neither. libstdc++ allocates memory that the
// program frees and frees memory that the program allocates, so this memory has no guard. A program
// that replaces these operators may pass memory that is not malloc's.
__attribute__((visibility("hidden"))) extern const char __ehdr_start[], _end[];

static bool is_own(const void *function) {
    return (const char *)function >= __ehdr_start && (const char *)function < _end;
}

#define NEWS(name, parameters, ...)                                                                \
    __attribute__((weak)) void *__real_##name parameters;                                          \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        void *made = __real_##name(__VA_ARGS__);                                                   \
        return is_own((const void *)(uintptr_t)__real_##name)                                      \
                   ? made                                                                          \
                   : ls_mpi_allocated(made, bytes, 0, HERE);                                       \
    }
NEWS(_Znwm, (size_t bytes), bytes)
NEWS(_Znam, (size_t bytes), bytes)
NEWS(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *nothrow), bytes, nothrow)
NEWS(_ZnamRKSt9nothrow_t, (size_t bytes, const void *nothrow), bytes, nothrow)

#define DELETES(name, parameters, ...)                                                             \
    __attribute__((weak)) void __real_##name parameters;                                           \
    void __wrap_##name parameters;                                                                 \
    void __wrap_##name parameters {                                                                \
        if (is_own((const void *)(uintptr_t)__real_##name) || ls_mpi_freed(at, 0, HERE) == 0) {    \
            __real_##name(__VA_ARGS__);                                                            \
        }                                                                                          \
    }
DELETES(_ZdlPv, (void *at), at)
DELETES(_ZdaPv, (void *at), at)
DELETES(_ZdlPvm, (void *at, size_t bytes), at, bytes)
DELETES(_ZdaPvm, (void *at, size_t bytes), at, bytes)

// ---- State that the C library keeps between calls: separate for every rank ----------------------
char *optarg;
int optind = 1, opterr = 1, optopt = '?';
static int options_begun;

// The C library's variable of that name, not the program's.
static void *of_library(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static int next_option(int argc, char *const *argv, const char *letters, const struct option *words,
                       int *index,
                       int (*how)(int, char *const *, const char *, const struct option *, int *)) {
    int *at = of_library("optind"), *tells = of_library("opterr"), *which = of_library("optopt");
    char **value = of_library("optarg");
    *at = options_begun != 0 && optind != 0 ? optind : 0;  // 0: restart
    options_begun = 1;
    *tells = opterr;
    int found = how(argc, argv, letters, words, index);
    optind = *at;
    optarg = *value;
    optopt = *which;
    return found;
}

int __real_getopt(int argc, char *const *argv, const char *letters);
static int plain(int argc, char *const *argv, const char *letters, const struct option *words,
                 int *index) {
    (void)words;
    (void)index;
    return __real_getopt(argc, argv, letters);
}

int __wrap_getopt(int argc, char *const *argv, const char *letters);
int __wrap_getopt(int argc, char *const *argv, const char *letters) {
    return next_option(argc, argv, letters, NULL, NULL, plain);
}

#define LONG_OPTIONS(name)                                                                         \
    int __real_##name(int argc, char *const *argv, const char *letters,                            \
                      const struct option *words, int *index);                                     \
    int __wrap_##name(int argc, char *const *argv, const char *letters,                            \
                      const struct option *words, int *index);                                     \
    int __wrap_##name(int argc, char *const *argv, const char *letters,                            \
                      const struct option *words, int *index) {                                    \
        return next_option(argc, argv, letters, words, index, __real_##name);                      \
    }
LONG_OPTIONS(getopt_long)
LONG_OPTIONS(getopt_long_only)

static struct random_data numbers;
static char numbers_state[128];

static struct random_data *own_numbers(void) {
    if (numbers.state == NULL) {
        (void)initstate_r(1, numbers_state, sizeof numbers_state, &numbers);
    }
    return &numbers;
}

#define RANDOM(name, T)                                                                            \
    T __wrap_##name(void);                                                                         \
    T __wrap_##name(void) {                                                                        \
        int32_t drawn = 0;                                                                         \
        (void)random_r(own_numbers(), &drawn);                                                     \
        return (T)drawn;                                                                           \
    }                                                                                              \
    void __wrap_s##name(unsigned seed);                                                            \
    void __wrap_s##name(unsigned seed) {                                                           \
        (void)srandom_r(seed, own_numbers());                                                      \
    }
RANDOM(rand, int)
RANDOM(random, long)

static struct drand48_data numbers48;
#define RANDOM48(name, T)                                                                          \
    T __wrap_##name(void);                                                                         \
    T __wrap_##name(void) {                                                                        \
        T drawn;                                                                                   \
        (void)name##_r(&numbers48, &drawn);                                                        \
        return drawn;                                                                              \
    }
RANDOM48(drand48, double)
RANDOM48(lrand48, long)
RANDOM48(mrand48, long)

void __wrap_srand48(long seed);
void __wrap_srand48(long seed) {
    (void)srand48_r(seed, &numbers48);
}
