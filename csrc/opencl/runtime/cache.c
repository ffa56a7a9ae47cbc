/*
 * cache.c - built programs on disk, in the folder of gpuops.compile's
 * (gpuops/_compile/cache.py) and by its rules: what another user could have written there is
 * never run.
 *
 * A file has the key, the program and a sum of both: a hash names it, and the key itself says
 * whether it is the right one. Whatever goes wrong here means only that a program is built.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl/runtime/runtime.h"

enum { PATH = 1024, MOST = 256 << 20 }; /* bytes: of a path, of a file that is read */

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

/* Everybody may write to none of the folders above, unless it is sticky as /tmp is; the one
 * that holds ours is the user's or root's. */
static int is_safe(const char *folder)
{
    char path[PATH];
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid() ||
        about.st_mode & 0022)
        return 0;
    snprintf(path, sizeof path, "%s", folder);
    for (int depth = 0;; depth++) {
        char *const slash = strrchr(path, '/');
        if (!slash) return 0;
        if (slash == path) slash[1] = '\0';
        else *slash = '\0';
        if (stat(path, &about) != 0) return 0;
        if (depth == 0 && about.st_uid != geteuid() && about.st_uid != 0) return 0;
        if (about.st_mode & S_IWOTH && !(about.st_mode & S_ISVTX)) return 0;
        if (strcmp(path, "/") == 0) return 1;
    }
}

/* Finds or makes it; 0 where there is none to be trusted. */
static int find_folder(char folder[PATH])
{
    char base[PATH], made[PATH];
    const char *const cache = getenv("XDG_CACHE_HOME"), *const home = getenv("HOME");
    if (cache && cache[0] == '/') snprintf(base, sizeof base, "%s", cache);
    else if (home && home[0] == '/') snprintf(base, sizeof base, "%.900s/.cache", home);
    else return 0;
    if (strlen(base) > PATH - 100) return 0;
    (void)mkdir(base, 0700);
    snprintf(made, sizeof made, "%.900s/gpuops", base);
    if (mkdir(made, 0700) != 0 && errno != EEXIST) return 0;
    char *const real = realpath(made, NULL);
    const int fits = real && strlen(real) < PATH - 100;
    if (fits) snprintf(folder, PATH, "%s", real);
    free(real);
    return fits && is_safe(folder) && chmod(folder, 0700) == 0;
}

static int path_of(const char *key, char path[PATH])
{
    char folder[PATH];
    if (!find_folder(folder)) return 0;
    snprintf(path, PATH, "%.900s/%016llx.cl", folder,
             (unsigned long long)sum_of(empty_sum, key, strlen(key)));
    return 1;
}

/* ---- files ---- */

static unsigned char *read_whole(FILE *file, const char *key, size_t *bytes)
{
    head h;
    struct stat about;
    unsigned char *all = NULL;
    const size_t key_bytes = strlen(key);
    if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_uid != geteuid() || about.st_mode & 0022)
        return NULL;
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
    char path[PATH];
    const int at = path_of(key, path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    FILE *const file = at >= 0 ? fdopen(at, "rb") : NULL;
    if (!file) {
        if (at >= 0) close(at);
        return NULL;
    }
    unsigned char *const found = read_whole(file, key, bytes);
    fclose(file);
    return found;
}

void gop_cl_cache_write(const char *key, const unsigned char *binary, size_t bytes)
{
    char path[PATH], temporary[PATH];
    const size_t key_bytes = strlen(key);
    head h = {.key_bytes = key_bytes, .binary_bytes = bytes};
    memcpy(h.magic, magic, sizeof magic);
    h.sum = sum_of(sum_of(empty_sum, key, key_bytes), binary, bytes);
    if (bytes > MOST || !path_of(key, path)) return;
    snprintf(temporary, sizeof temporary, "%.*s/tmpXXXXXX", (int)(strrchr(path, '/') - path),
             path);
    const int at = mkstemp(temporary); /* old ones go with those of cache.py */
    FILE *const file = at >= 0 ? fdopen(at, "wb") : NULL;
    int whole = file && fwrite(&h, sizeof h, 1, file) == 1 &&
                fwrite(key, 1, key_bytes, file) == key_bytes &&
                fwrite(binary, 1, bytes, file) == bytes;
    if (file) whole &= fclose(file) == 0;
    else if (at >= 0) close(at);
    if (at >= 0 && (!whole || rename(temporary, path) != 0)) unlink(temporary);
}
