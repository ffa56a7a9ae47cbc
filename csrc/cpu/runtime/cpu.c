/*
 * cpu.c - the CPU backend: it uses NumPy's memory in place, and a launch is a function call.
 */
#define _GNU_SOURCE /* sysconf: memory and cache sizes; mincore */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/arrays/cast.h"
#include "core/host/memory.h"
#include "cpu/runtime/levels.h"
#include "cpu/runtime/stream.h"

/* Every op's ladder, once per level. */
#define GOP_OP(name, stem)                                                                     \
    extern const gop_ladder gop_cpu_##name##_baseline;                                         \
    extern const gop_ladder gop_cpu_##name##_avx2;                                             \
    extern const gop_ladder gop_cpu_##name##_avx512;
#include "ops.def"
#undef GOP_OP

gop_cast gop_cpu_cast_baseline(int stored, gop_dtype dtype, int is_out);
gop_cast gop_cpu_cast_avx2(int stored, gop_dtype dtype, int is_out);
gop_cast gop_cpu_cast_avx512(int stored, gop_dtype dtype, int is_out);

/* The symbol of a level, or NULL if this build does not have the level. */
#if GOP_LEVELS & 1
#define BASELINE(what) what##_baseline
#else
#define BASELINE(what) NULL
#endif
#if GOP_LEVELS & 2
#define AVX2(what) what##_avx2
#else
#define AVX2(what) NULL
#endif
#if GOP_LEVELS & 4
#define AVX512(what) what##_avx512
#else
#define AVX512(what) NULL
#endif
#define OF_LEVELS(what)                                                                        \
    {                                                                                          \
        BASELINE(what), AVX2(what), AVX512(what)                                               \
    }

static const gop_ladder *const ladders[GOP_NOPS][GOP_NLEVELS] = {
#define GOP_OP(name, stem) OF_LEVELS(&gop_cpu_##name),
#include "ops.def"
#undef GOP_OP
};

static gop_status cpu_count(int *devices)
{
    *devices = 1;
    return GOP_OK;
}

/* Reads the processor's name; "CPU" if the system does not give it. */
static void read_name(char name[128])
{
    snprintf(name, 128, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(name, 128, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file) fclose(file);
}

static int64_t pages(int name)
{
    return (int64_t)sysconf(name) * sysconf(_SC_PAGESIZE);
}

/* Half the last-level cache, limited because a virtual machine may report the whole host's. It
 * is read once, because reading it traps in a virtual machine. */
static int64_t stream_bytes(void)
{
    static _Atomic int64_t cached;
    int64_t bytes = atomic_load_explicit(&cached, memory_order_relaxed);
    if (bytes) return bytes;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    bytes = sysconf(_SC_LEVEL3_CACHE_SIZE) / 2;
#endif
    if (bytes < 1 << 22) bytes = 1 << 22;
    if (bytes > 1 << 24) bytes = 1 << 24;
    atomic_store(&cached, bytes);
    return bytes;
}

int gop_streams(int64_t bytes)
{
    return bytes >= stream_bytes();
}

/* ---- fresh memory ---- */

int gop_is_fresh(const void *memory, int64_t bytes)
{
    if (bytes < HUGE_FROM) return 0;
#if defined(__linux__)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t middle = ((uintptr_t)memory + (uintptr_t)bytes / 2) / page * page;
    unsigned char resident;
    if (mincore((void *)middle, 1, &resident) == 0) return !(resident & 1);
#endif
    return 0;
}

#if defined(MADV_POPULATE_WRITE)
static void populate_piece(void *memory, int64_t begin, int64_t end, int worker)
{
    char *const first = (char *)((uintptr_t)memory / HUGE_PAGE * HUGE_PAGE);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *from = first + begin * HUGE_PAGE;
    (void)worker;
    if (from < (char *)memory) from = (char *)((uintptr_t)memory / page * page);
    /* An older kernel refuses: then pages are allocated at the first write. */
    (void)madvise(from, (size_t)(first + end * HUGE_PAGE - from), MADV_POPULATE_WRITE);
}
#endif

gop_status gop_populate(void *memory, int64_t bytes)
{
#if defined(MADV_POPULATE_WRITE)
    const int64_t past = (int64_t)((uintptr_t)memory % HUGE_PAGE);
    return gop_parallel((past + bytes) / HUGE_PAGE, 1, populate_piece, memory);
#else
    (void)memory, (void)bytes;
    return GOP_OK;
#endif
}

static gop_status cpu_info(int ordinal, gop_device_info *info)
{
    gop_level level = GOP_BASELINE;
    GOP_TRY(gop_level_get(&level));
    if (ordinal != 0)
        return gop_fail(GOP_BAD_ARGUMENT, "device 'cpu:%d' does not exist, expected 'cpu'",
                        ordinal);
    memset(info, 0, sizeof *info);
    read_name(info->name);
    info->processors = gop_threads();
    info->memory = pages(_SC_PHYS_PAGES);
    info->memory_free = pages(_SC_AVPHYS_PAGES);
#if defined(_SC_LEVEL3_CACHE_SIZE)
    info->l2 = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    snprintf(info->detail, sizeof info->detail, "instruction set %s, %d threads",
             gop_level_names[level], gop_threads());
    return GOP_OK;
}

static gop_status cpu_context(int ordinal, gop_ctx **ctx)
{
    static _Thread_local gop_ctx context;
    gop_level level = GOP_BASELINE;
    GOP_TRY(gop_level_get(&level));
    if (ordinal != 0)
        return gop_fail(GOP_BAD_ARGUMENT, "device 'cpu:%d' does not exist, expected 'cpu'",
                        ordinal);
    context.backend = &gop_cpu_backend;
    context.info.processors = gop_threads();
    *ctx = &context;
    return GOP_OK;
}

/* ---- memory: the block released last is kept for the next call, which then has no page
 * faults. A concurrent or nested call finds none and allocates. ---- */

#if defined(__SANITIZE_ADDRESS__)
enum { KEPT_BYTES = 0 }; /* so that the sanitizer knows the bounds of each block */
#else
enum { KEPT_BYTES = 1 << 26 };
#endif

typedef struct block {
    _Alignas(LINE) size_t bytes; /* bytes after this header */
} block;

static _Atomic(block *) kept;

static gop_status cpu_alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    block *b = bytes <= KEPT_BYTES ? atomic_exchange(&kept, NULL) : NULL;
    (void)ctx;
    if (b && (b->bytes < bytes || gop_fault("host.alloc"))) {
        const int failed = b->bytes >= bytes;
        gop_release(b);
        b = NULL;
        if (failed) return gop_no_memory(NULL, bytes);
    }
    if (!b && bytes <= SIZE_MAX - sizeof *b && (b = gop_alloc(sizeof *b + bytes)))
        b->bytes = bytes;
    if (!b) return gop_no_memory(NULL, bytes);
    *memory = b + 1;
    return GOP_OK;
}

static void cpu_release(gop_ctx *ctx, void *memory)
{
    block *const b = (block *)memory - 1;
    (void)ctx;
    gop_release(b->bytes <= KEPT_BYTES ? atomic_exchange(&kept, b) : b);
}

/* ---- staging: only for arrays that are not aligned to their items, and overlapping outputs
 * ---- */

static gop_status cpu_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    (void)ctx;
    return gop_move(host, 0, gop_array_elements(host), device->data, 1);
}

static gop_status cpu_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    (void)ctx;
    return gop_move(host, 0, gop_array_elements(host), device->data, 0);
}

static gop_status cpu_sync(gop_ctx *ctx)
{
    (void)ctx;
    return gop_interrupted();
}

/* Writes a buffer larger than a core's share of the last-level cache, so that little of the
 * operands remains in it. The size is fixed, because a virtual machine may report the whole
 * host's cache. */
enum { FLUSH_BYTES = 128 << 20, FLUSH_PIECE = 1 << 20 };

static void flush_piece(void *memory, int64_t begin, int64_t end, int worker)
{
    static _Atomic unsigned char value;
    (void)worker;
    memset((char *)memory + begin * FLUSH_PIECE, ++value, (size_t)(end - begin) * FLUSH_PIECE);
}

static gop_status cpu_flush(gop_ctx *ctx)
{
    static _Atomic(void *) last; /* kept, because fresh pages would cost more than writing */
    void *memory = atomic_exchange(&last, NULL);
    (void)ctx;
    if (!memory && !(memory = gop_alloc(FLUSH_BYTES))) return gop_no_memory(NULL, FLUSH_BYTES);
    const gop_status status = gop_parallel(FLUSH_BYTES / FLUSH_PIECE, 1, flush_piece, memory);
    gop_release(atomic_exchange(&last, memory));
    return status;
}

/* The level in use, or the lowest supported one if GPUOPS_CPU_LEVEL is wrong. Importing the
 * package fails if there is none. */
static gop_level level_in_use(void)
{
    gop_level level = GOP_BASELINE;
    if (gop_level_get(&level) != GOP_OK)
        while (!gop_level_supported(level)) level++;
    return level;
}

static const gop_ladder *cpu_ladder(gop_op op)
{
    return ladders[op][level_in_use()];
}

gop_casts gop_cpu_casts(void)
{
    static const gop_casts casts[GOP_NLEVELS] = OF_LEVELS(gop_cpu_cast);
    return casts[level_in_use()];
}

const gop_backend gop_cpu_backend = {
    .abi = GOP_ABI,
    .facts = GOP_HOST_MEMORY | GOP_CASTS,
    .name = "cpu",
    .count = cpu_count,
    .info = cpu_info,
    .context = cpu_context,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .upload = cpu_upload,
    .download = cpu_download,
    .sync = cpu_sync,
    .flush = cpu_flush,
    .ladder = cpu_ladder,
};
