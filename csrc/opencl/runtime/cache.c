/*
 * cache.c - built programs on disk, in the folder of gpuops.compile's
 * (gpuops/_compile/cache.py) and by its rules: what another user could have written there is
 * never run.
 *
 * A hash names a file, and the key in it says whether it is the right one. Whatever goes wrong
 * here means only that a program is built.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl/runtime/runtime.h"

enum { PATH = 1024, NAME = 64, MOST = 256 << 20 }; /* bytes: of a path, a name, a file */

/* FNV-1a: it names files and finds those that were cut short. */
static uint64_t sum_of(const void *bytes, size_t count)
{
    const unsigned char *const at = bytes;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* ---- the folder ---- */

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
    strcat(path, "/gpuops");
    (void)mkdir(path, 0700);
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || (own_size(folder, S_IFDIR) >= 0 && fchmod(folder, 0700) == 0))
        return folder;
    close(folder);
    return -1;
}

static void name_of(const char *key, char name[NAME])
{
    snprintf(name, NAME, "%016llx.cl", (unsigned long long)sum_of(key, strlen(key)));
}

/* ---- files: the sum of what follows, the key and a zero, the program ---- */

enum { SUM = sizeof(uint64_t) };

unsigned char *gop_cl_cache_read(const char *key, size_t *bytes)
{
    char name[NAME];
    const int folder = open_folder();
    name_of(key, name);
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const int64_t size = own_size(file, S_IFREG);
    const size_t key_bytes = strlen(key) + 1, before = SUM + key_bytes;
    unsigned char *all =
        size < (int64_t)before || size > MOST ? NULL : gop_services->alloc((size_t)size);
    uint64_t sum = 0;
    if (all && read(file, all, (size_t)size) == size)
        sum = sum_of(all + SUM, (size_t)size - SUM);
    if (all && (memcmp(all, &sum, SUM) != 0 || memcmp(all + SUM, key, key_bytes) != 0)) {
        gop_services->release(all);
        all = NULL;
    }
    if (file >= 0) close(file);
    if (folder >= 0) close(folder);
    if (!all) return NULL;
    *bytes = (size_t)size - before;
    return memmove(all, all + before, *bytes);
}

void gop_cl_cache_write(const char *key, const unsigned char *binary, size_t bytes)
{
    static _Atomic unsigned number;
    char name[NAME], temporary[NAME];
    const size_t key_bytes = strlen(key) + 1, size = SUM + key_bytes + bytes;
    unsigned char *const all = size > MOST ? NULL : gop_services->alloc(size);
    const int folder = all ? open_folder() : -1;
    name_of(key, name);
    snprintf(temporary, sizeof temporary, "tmp%ld.%u", (long)getpid(), number++);
    const int file = /* old ones go with cache.py's */
        openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
        memcpy(all + SUM, key, key_bytes);
        memcpy(all + SUM + key_bytes, binary, bytes);
        const uint64_t sum = sum_of(all + SUM, size - SUM);
        memcpy(all, &sum, SUM);
        const int is_whole = write(file, all, size) == (ssize_t)size;
        if (close(file) != 0 || !is_whole || renameat(folder, temporary, folder, name) != 0)
            unlinkat(folder, temporary, 0);
    }
    if (folder >= 0) close(folder);
    gop_services->release(all);
}
