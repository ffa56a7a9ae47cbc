/*
 * programs.c - programs built from source on first use and kept on disk, and the kernels that
 * threads have of them.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/numerics.h"
#include "opencl/runtime/runtime.h"

/* A program with its options on a device, of a list that only grows. */
typedef struct gop_cl_built {
    const gop_cl_device *device;
    const char *source;
    char options[GOP_CL_OPTIONS];
    cl_program program;
    struct gop_cl_built *next;
} gop_cl_built;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gop_cl_built *all;

/* Promises of docs/numerics.md: no option that rounds otherwise is given to any build, and the
 * tree of sums is core's. */
static const char every_build[] = "-cl-std=CL1.2 -w %s -DLEAF=%d -DTREE_LANES=%d";

/* The first line of a build's log that speaks of an error, and what follows it on that line. */
static void build_error(const gop_cl_device *d, cl_program program, char *line, size_t room)
{
    size_t bytes = 0;
    char *log = NULL;
    gop_cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    if (bytes) log = gop_services->alloc(bytes + 1);
    if (!log) return;
    log[bytes] = log[0] = '\0';
    gop_cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    const char *found = strstr(log, "error");
    if (!found) found = log;
    while (found > log && found[-1] != '\n') found--;
    while (isspace((unsigned char)*found)) found++;
    snprintf(line, room, "%.*s", (int)strcspn(found, "\n"), found);
    gop_services->release(log);
}

/* ---- the cache: files in the folder of gpuops.compile's (gpuops/_compile/cache.py) and by its
 * rules: what another user could have written there is never run. A hash names a file, and the
 * key in it says whether it is the right one. Whatever goes wrong here means only that a
 * program is built. ---- */

enum { PATH = 1024, NAME = 64, MOST = 256 << 20 }; /* bytes: of a path, a name, a file */

/* FNV-1a: it names files and finds those that were cut short. */
static uint64_t sum_of(const void *bytes, size_t count)
{
    const unsigned char *const at = bytes;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Its bytes, or -1 where it is not there or somebody else can have written it. */
static int64_t own_size(int file, mode_t type)
{
    struct stat about;
    const int is_own = fstat(file, &about) == 0 && (about.st_mode & S_IFMT) == type &&
                       about.st_uid == geteuid() && !(about.st_mode & 0022);
    return is_own ? about.st_size : -1;
}

/* Finds or makes it; -1 where there is none to be trusted. What is opened by way of it is
 * inside, whatever becomes of the folders above. */
static int open_folder(void)
{
    char path[PATH];
    const char *const cache = getenv("XDG_CACHE_HOME"), *const home = getenv("HOME");
    if (cache && cache[0] == '/') snprintf(path, sizeof path, "%.900s", cache);
    else if (home && home[0] == '/') snprintf(path, sizeof path, "%.900s/.cache", home);
    else return -1;
    (void)mkdir(path, 0700);
    (void)mkdir(strcat(path, "/gpuops"), 0700);
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || (own_size(folder, S_IFDIR) >= 0 && fchmod(folder, 0700) == 0))
        return folder;
    close(folder);
    return -1;
}

/* In a file: the sum of what follows, the key and a zero, the program. */
enum { SUM = sizeof(uint64_t) };

static void name_of(const char *key, char name[NAME])
{
    snprintf(name, NAME, "%016llx.cl", (unsigned long long)sum_of(key, strlen(key)));
}

/* The bytes kept for a key, to be freed; NULL where there are none. */
static unsigned char *read_kept(const char *key, size_t *bytes)
{
    char name[NAME];
    const int folder = open_folder();
    name_of(key, name);
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const int64_t size = own_size(file, S_IFREG);
    const size_t key_bytes = strlen(key) + 1, before = SUM + key_bytes;
    unsigned char *content =
        size < (int64_t)before || size > MOST ? NULL : gop_services->alloc((size_t)size);
    uint64_t sum = 0;
    if (content && read(file, content, (size_t)size) == size)
        sum = sum_of(content + SUM, (size_t)size - SUM);
    if (content &&
        (memcmp(content, &sum, SUM) != 0 || memcmp(content + SUM, key, key_bytes) != 0)) {
        gop_services->release(content);
        content = NULL;
    }
    if (file >= 0) close(file);
    if (folder >= 0) close(folder);
    if (!content) return NULL;
    *bytes = (size_t)size - before;
    return memmove(content, content + before, *bytes);
}

static void keep(const char *key, const unsigned char *binary, size_t bytes)
{
    static _Atomic unsigned number;
    char name[NAME], temporary[NAME];
    const size_t key_bytes = strlen(key) + 1, size = SUM + key_bytes + bytes;
    unsigned char *const content = size > MOST ? NULL : gop_services->alloc(size);
    const int folder = content ? open_folder() : -1;
    name_of(key, name);
    snprintf(temporary, sizeof temporary, "tmp%ld.%u", (long)getpid(), number++);
    const int file = /* old ones go with cache.py's */
        openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
        memcpy(content + SUM, key, key_bytes);
        memcpy(content + SUM + key_bytes, binary, bytes);
        const uint64_t sum = sum_of(content + SUM, size - SUM);
        memcpy(content, &sum, SUM);
        const int is_whole = write(file, content, size) == (ssize_t)size;
        if (close(file) != 0 || !is_whole || renameat(folder, temporary, folder, name) != 0)
            unlinkat(folder, temporary, 0);
    }
    if (folder >= 0) close(folder);
    gop_services->release(content);
}

/* All that a program's bytes depend on. To be freed. */
static char *key_of(const gop_cl_device *d, const char *text, const char *options)
{
    const size_t room = strlen(text) + strlen(options) + sizeof d->platform +
                        sizeof d->info.name + sizeof d->driver + sizeof d->version + 64;
    char *const key = gop_services->alloc(room);
    if (key)
        snprintf(key, room, "1\n%s\n%s\n%s\n%s\n%s\n%s", d->platform, d->info.name, d->driver,
                 d->version, options, text);
    return key;
}

static cl_program from_cache(const gop_cl_device *d, const char *key, const char *options)
{
    size_t bytes = 0;
    cl_int of_binary = CL_SUCCESS, code = CL_SUCCESS;
    unsigned char *const kept = key ? read_kept(key, &bytes) : NULL;
    if (!kept) return NULL;
    const unsigned char *binary = kept;
    cl_program program = gop_cl.clCreateProgramWithBinary(d->context, 1, &d->id, &bytes,
                                                          &binary, &of_binary, &code);
    if (program && (of_binary != CL_SUCCESS ||
                    gop_cl.clBuildProgram(program, 1, &d->id, options, NULL, NULL))) {
        gop_cl.clReleaseProgram(program); /* another driver's after all: built again */
        program = NULL;
    }
    gop_services->release(kept);
    return program;
}

static void into_cache(cl_program program, const char *key)
{
    size_t bytes = 0;
    if (gop_cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, GOP_CL_ANSWER(bytes))) return;
    unsigned char *binary = bytes ? gop_services->alloc(bytes) : NULL;
    if (binary && !gop_cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, GOP_CL_ANSWER(binary)))
        keep(key, binary, bytes);
    gop_services->release(binary);
}

gop_status gop_cl_build_source(const gop_cl_device *d, const char *text, const char *options,
                               cl_program *program)
{
    char said[400] = "";
    cl_int code = CL_SUCCESS;
    *program = GOP_CL_MAKE(&code, clCreateProgramWithSource, d->context, 1, &text, NULL);
    if (!*program) return gop_cl_check(code, "clCreateProgramWithSource");
    code = CL_BUILD_PROGRAM_FAILURE;
    if (!gop_cl_fault("opencl.clBuildProgram", NULL))
        code = gop_cl.clBuildProgram(*program, 1, &d->id, options, NULL, NULL);
    if (code == CL_SUCCESS) return GOP_OK;
    build_error(d, *program, said, sizeof said);
    gop_cl.clReleaseProgram(*program);
    return gop_cl_with_code(gop_fail(GOP_NOT_COMPILED, "%s", said), code);
}

static gop_status build(const gop_cl_device *d, const char *name, const char *options,
                        cl_program *built)
{
    const gop_cl_source *source = gop_cl_sources;
    while (source->name && strcmp(source->name, name) != 0) source++;
    char line[GOP_CL_OPTIONS + 64];
    if (!source->text)
        return gop_fail(GOP_INTERNAL, "opencl: this build has no source %s", name);
    snprintf(line, sizeof line, every_build, options, LEAF, LANES);
    char *const key = d->keeps_programs ? NULL : key_of(d, source->text, line);
    *built = from_cache(d, key, line);
    const int is_kept = *built || !key;
    gop_status status = *built ? GOP_OK : gop_cl_build_source(d, source->text, line, built);
    if (status == GOP_NOT_COMPILED) { /* a kernel of ours, which nobody can mend */
        const gop_error said = *gop_services->error();
        status = gop_fail(GOP_DEVICE_UNSUPPORTED,
                          "opencl: %s does not build the kernel %s (%s, %d): %s; options %s; "
                          "driver %s",
                          d->info.name, name, said.native_name, (int)said.native_code,
                          *said.message ? said.message : "it says nothing", line, d->driver);
        gop_cl_with_code(status, (cl_int)said.native_code);
    } else if (status == GOP_OK && !is_kept) into_cache(*built, key);
    gop_services->release(key);
    return status;
}

/* With the lock held: of threads that come for the same program one builds it. */
static gop_status find_program(const gop_cl_device *d, const char *source, const char *options,
                               const gop_cl_built **found)
{
    for (gop_cl_built *b = all; b; b = b->next)
        if (b->device == d && b->source == source && strcmp(b->options, options) == 0) {
            *found = b;
            return GOP_OK;
        }
    cl_program program;
    GOP_TRY(build(d, source, options, &program));
    gop_cl_built *const made = gop_services->alloc(sizeof *made);
    if (!made) {
        gop_cl.clReleaseProgram(program);
        return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a program");
    }
    *made = (gop_cl_built){.device = d, .source = source, .program = program, .next = all};
    gop_cl_append(made->options, sizeof made->options, "%s", options);
    *found = all = made;
    return GOP_OK;
}

gop_status gop_cl_kernel_get(gop_cl_ctx *c, const char *source, const char *options,
                             const char *name, cl_kernel *kernel)
{
    const gop_cl_built *program = NULL;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < GOP_CL_KERNELS && c->kernel[i].kernel; i++) {
        const gop_cl_kernel *const k = &c->kernel[i];
        *kernel = k->kernel;
        if (k->program->source == source && k->name == name &&
            strcmp(k->program->options, options) == 0)
            return GOP_OK;
    }
    pthread_mutex_lock(&lock);
    const gop_status status = find_program(c->device, source, options, &program);
    pthread_mutex_unlock(&lock);
    GOP_TRY(status);
    *kernel = GOP_CL_MAKE(&code, clCreateKernel, program->program, name);
    if (!*kernel) return gop_cl_check(code, "clCreateKernel");
    gop_cl_kernel *const oldest = &c->kernel[c->kernels++ % GOP_CL_KERNELS];
    if (oldest->kernel) gop_cl.clReleaseKernel(oldest->kernel);
    *oldest = (gop_cl_kernel){program, name, *kernel};
    return GOP_OK;
}
