/*
 * cache.c - built programs on disk, in the folder of gpuops.compile's
 * (gpuops/_compile/cache.py) and by its rules: what another user could have written there is
 * never run.
 *
 * A file has the key, the program and a sum of both: a hash names it, and the key itself says
 * whether it is the right one. Whatever goes wrong here means only that a program is built.
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

typedef struct head {
    char magic[8];
    uint64_t key_bytes, binary_bytes, sum;
} head;
static const char magic[8] = "gopucl1";

/* FNV-1a: it names files and finds those that were cut short. */
static uint64_t sum_of(uint64_t sum, const void *bytes, size_t count)
{
    const unsigned char *const at = bytes;
    for (size_t i = 0; i < count; i++) sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}
static const uint64_t empty_sum = UINT64_C(0xcbf29ce484222325);

/* ---- the folder ---- */

/* Whether nobody else can have written it. */
static int is_own(int file, mode_t type)
{
    struct stat about;
    return fstat(file, &about) == 0 && (about.st_mode & S_IFMT) == type &&
           about.st_uid == geteuid() && !(about.st_mode & 0022);
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
    if (folder < 0 || (is_own(folder, S_IFDIR) && fchmod(folder, 0700) == 0)) return folder;
    close(folder);
    return -1;
}

static void name_of(const char *key, char name[NAME])
{
    snprintf(name, NAME, "%016llx.cl", (unsigned long long)sum_of(empty_sum, key, strlen(key)));
}

/* ---- files ---- */

static unsigned char *read_whole(FILE *file, const char *key, size_t *bytes)
{
    head h;
    unsigned char *all = NULL;
    const size_t key_bytes = strlen(key);
    if (!is_own(fileno(file), S_IFREG)) return NULL;
    if (fread(&h, sizeof h, 1, file) != 1 || memcmp(h.magic, magic, sizeof magic) != 0 ||
        h.key_bytes != key_bytes || h.binary_bytes > MOST)
        return NULL;
    const size_t rest = key_bytes + (size_t)h.binary_bytes;
    if (!(all = gop_services->alloc(rest))) return NULL;
    if (fread(all, 1, rest, file) != rest || memcmp(all, key, key_bytes) != 0 ||
        sum_of(empty_sum, all, rest) != h.sum) {
        gop_services->release(all);
        return NULL;
    }
    *bytes = (size_t)h.binary_bytes;
    memmove(all, all + key_bytes, *bytes);
    return all;
}

unsigned char *gop_cl_cache_read(const char *key, size_t *bytes)
{
    char name[NAME];
    const int folder = open_folder();
    name_of(key, name);
    const int at = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *const file = at < 0 ? NULL : fdopen(at, "rb");
    unsigned char *const found = file ? read_whole(file, key, bytes) : NULL;
    if (file) fclose(file);
    else if (at >= 0) close(at);
    if (folder >= 0) close(folder);
    return found;
}

void gop_cl_cache_write(const char *key, const unsigned char *binary, size_t bytes)
{
    static _Atomic unsigned number;
    char name[NAME], temporary[NAME];
    const size_t key_bytes = strlen(key);
    head h = {.key_bytes = key_bytes, .binary_bytes = bytes};
    memcpy(h.magic, magic, sizeof magic);
    h.sum = sum_of(sum_of(empty_sum, key, key_bytes), binary, bytes);
    const int folder = bytes > MOST ? -1 : open_folder();
    if (folder < 0) return;
    name_of(key, name);
    snprintf(temporary, sizeof temporary, "tmp%ld.%u", (long)getpid(), number++);
    const int at = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *const file = at < 0 ? NULL : fdopen(at, "wb"); /* old ones go with cache.py's */
    int whole = file && fwrite(&h, sizeof h, 1, file) == 1 &&
                fwrite(key, 1, key_bytes, file) == key_bytes &&
                fwrite(binary, 1, bytes, file) == bytes;
    if (file) whole &= fclose(file) == 0;
    else if (at >= 0) close(at);
    if (at >= 0 && (!whole || renameat(folder, temporary, folder, name) != 0))
        unlinkat(folder, temporary, 0);
    close(folder);
}
