/*
 * sim.c - the SIMT backend: CUDA kernels on the CPU. Memory is the host's own, used in place.
 */
#define _GNU_SOURCE /* sysconf: memory sizes */
#include "sim/check.h"
#include "sim/counters.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const gop_host *gop_lent;

#define GOP_OP(name, stem) extern const gop_ladder gop_cuda_##name;
#include "ops.def"
#undef GOP_OP

/* ---- workers: one for each thread at work, kept for the next launch ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gop_sim_worker *idle;

static gop_sim_worker *take_worker(void)
{
    pthread_mutex_lock(&lock);
    gop_sim_worker *worker = idle;
    if (worker) idle = worker->next_idle;
    pthread_mutex_unlock(&lock);
    if (worker) return worker;
    worker = aligned_alloc(_Alignof(gop_sim_worker), sizeof *worker);
    if (worker) memset(worker, 0, sizeof *worker);
    return worker;
}

static void give_worker(gop_sim_worker *worker)
{
    pthread_mutex_lock(&lock);
    worker->next_idle = idle;
    idle = worker;
    pthread_mutex_unlock(&lock);
}

/* ---- launching ---- */

typedef struct launching {
    const gop_sim_launch *launch;
    gop_sim_plan plan;
    gop_sim_hunt *hunt; /* NULL: nothing is checked */
    gop_sim_schedule schedule;
    gop_sim_crew crew;
    int failed;      /* 1 once a thread has met a failure, whose error is kept */
    gop_error error; /* of the first one */
} launching;

static void keep_error(launching *l, gop_status status)
{
    if (__atomic_exchange_n(&l->failed, 1, __ATOMIC_ACQ_REL)) return;
    l->error = *gop_lent->error();
    l->error.code = status;
}

/* Items [begin, end) of the stage on this thread. */
static void run_blocks(void *argument, int64_t begin, int64_t end, int thread)
{
    launching *l = argument;
    const gop_sim_plan *plan = &l->plan;
    const gop_sim_index grid = l->launch->grid;
    int64_t kept = begin + plan->done;
    (void)thread;
    if (__atomic_load_n(&l->failed, __ATOMIC_ACQUIRE)) return;
    gop_sim_worker *worker = take_worker();
    if (!worker) {
        keep_error(l, gop_fail(GOP_NO_MEMORY, "sim: no memory for a block's shared memory"));
        return;
    }
    worker->launch = l->launch;
    gop_sim_here = worker;
    gop_sim_counting_begin(worker, plan);
    gop_sim_checks_begin(worker, l->hunt);
    worker->schedule = l->schedule;
    worker->crew = &l->crew;
    __atomic_add_fetch(&l->crew.working, 1, __ATOMIC_ACQ_REL);
    const int64_t blocks = (int64_t)grid.x * grid.y * grid.z;
    for (int64_t item = kept; item < end + plan->done; item++) {
        const int64_t b = plan->counted ? gop_sim_plan_block(plan, item)
                                        : gop_sim_scheduled_block(&l->schedule, item, blocks);
        if (plan->unit && item % plan->unit == 0 && item > kept) {
            gop_sim_counting_keep(worker, plan, kept, item);
            kept = item;
        }
        worker->block.x = (unsigned)(b % grid.x);
        worker->block.y = (unsigned)(b / grid.x % grid.y);
        worker->block.z = (unsigned)(b / grid.x / grid.y);
        const gop_status status = gop_sim_run_block(worker);
        if (status != GOP_OK) {
            keep_error(l, status);
            break;
        }
    }
    gop_sim_stop_polling(worker);
    __atomic_sub_fetch(&l->crew.working, 1, __ATOMIC_ACQ_REL);
    gop_sim_counting_keep(worker, plan, kept, end + plan->done);
    gop_sim_counting_end(worker);
    gop_sim_checks_end(worker);
    gop_sim_here = NULL;
    give_worker(worker);
}

static gop_status check_launch(const gop_sim_launch *l)
{
    const gop_sim_index g = l->grid, b = l->block;
    const uint64_t lanes = (uint64_t)b.x * b.y * b.z, blocks = (uint64_t)g.x * g.y * g.z;
    if (blocks == 0 || lanes == 0 || lanes > GOP_SIM_LANES || b.z > 64 || g.x > 0x7fffffffu ||
        g.y > 65535 || g.z > 65535)
        return gop_fail(GOP_DEVICE_FAILED,
                        "sim: %s: a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads, "
                        "expected none empty, and at most 1024 threads in a block",
                        l->kernel, g.x, g.y, g.z, b.x, b.y, b.z);
    if (l->shared > GOP_SIM_DYNAMIC)
        return gop_fail(GOP_DEVICE_FAILED,
                        "sim: %s: the launch asks for %zu bytes of shared memory, expected at "
                        "most %d",
                        l->kernel, l->shared, (int)GOP_SIM_DYNAMIC);
    return GOP_OK;
}

/* In stages where it is counted: the first ones tell how long the rest will take. */
static gop_status run_stages(launching *l, int64_t per_piece)
{
    gop_sim_plan *plan = &l->plan;
    while (plan->done < plan->run && !l->failed) {
        const int64_t end = gop_sim_plan_next(plan, per_piece);
        GOP_TRY(gop_lent->parallel(end - plan->done, per_piece, run_blocks, l));
        GOP_TRY(gop_sim_plan_after(plan, l->launch, end));
    }
    return GOP_OK;
}

gop_status gop_sim_run(const gop_sim_launch *launch)
{
    enum { PIECE = 2048 }; /* lanes: few enough that Ctrl-C is heard, too many to count */
    launching l = {.launch = launch};
    GOP_TRY(check_launch(launch));
    const char *set = getenv("GPUOPS_SIM_SCHEDULE");
    if (!gop_sim_schedule_now(&l.schedule))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "sim: GPUOPS_SIM_SCHEDULE is '%.40s', expected forward, lockstep, "
                        "reversed, random or random:SEED",
                        set ? set : "");
    gop_sim_plan_begin(&l.plan, launch);
    const gop_sim_index b = launch->block;
    const int64_t per_piece = PIECE / ((int64_t)b.x * b.y * b.z);
    if (l.plan.counted) l.schedule.turns = GOP_SIM_LOCKSTEP;
    l.hunt = gop_sim_hunt_begin();
    const gop_status status = run_stages(&l, per_piece > 0 ? per_piece : 1);
    gop_sim_hunt_end(l.hunt);
    gop_sim_profile_ends(launch);
    GOP_TRY(status);
    if (!l.failed) return GOP_OK;
    *gop_lent->error() = l.error;
    return l.error.code;
}

const char *gop_sim_message(void)
{
    return gop_lent->error()->message;
}

/* ---- the backend ---- */

typedef struct sim_ctx {
    gop_ctx base;
    double marks[GOP_EVENTS]; /* in seconds */
} sim_ctx;

static gop_status sim_count(int *devices)
{
    *devices = GOP_SIM_DEVICES;
    return GOP_OK;
}

/* Its limits are the same for all devices: so every kernel runs, and gives the same bits. */
static gop_status sim_info(int ordinal, gop_device_info *info)
{
    if (ordinal < 0 || ordinal >= GOP_SIM_DEVICES)
        return gop_fail(GOP_BAD_ARGUMENT, "sim has %d devices, expected one of them, got %d",
                        GOP_SIM_DEVICES, ordinal);
    const gop_sim_rules *rules = &gop_sim_rules_of[ordinal];
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "CUDA kernels on the CPU");
    info->major = rules->major;
    info->minor = rules->minor;
    info->processors = GOP_SIM_PROCESSORS;
    info->max_threads_per_block = GOP_SIM_LANES;
    info->warp = GOP_SIM_WARP;
    info->shared_per_block = GOP_SIM_DYNAMIC;
    info->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    info->memory_free = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (ordinal == 0)
        snprintf(info->detail, sizeof info->detail,
                 "counts what warps do; its time says nothing about a GPU's");
    else
        snprintf(info->detail, sizeof info->detail,
                 "counts by the rules of compute capability %d.%d", rules->major, rules->minor);
    return GOP_OK;
}

static const gop_backend sim_backend;

static pthread_key_t contexts_key;

static void make_key(void)
{
    pthread_key_create(&contexts_key, free);
}

/* Allocated: thread-local variables of a library opened late have little room. */
static gop_status sim_context(int ordinal, gop_ctx **ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    gop_device_info info;
    GOP_TRY(sim_info(ordinal, &info));
    pthread_once(&once, make_key);
    sim_ctx *contexts = pthread_getspecific(contexts_key);
    if (!contexts) {
        contexts = calloc(GOP_SIM_DEVICES, sizeof *contexts);
        if (!contexts || pthread_setspecific(contexts_key, contexts) != 0) {
            free(contexts);
            return gop_fail(GOP_NO_MEMORY, "sim: no memory for a thread's devices");
        }
    }
    gop_ctx *one = &contexts[ordinal].base;
    if (!one->backend)
        *one = (gop_ctx){.backend = &sim_backend, .device = {GOP_SIM, ordinal}, .info = info};
    *ctx = one;
    return GOP_OK;
}

static gop_status sim_alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    (void)ctx;
    *memory = gop_sim_memory_take(bytes);
    if (*memory) return GOP_OK;
    gop_fail(GOP_NO_MEMORY, "no host memory for %zu bytes of working space", bytes);
    gop_lent->error()->requested = (int64_t)bytes;
    return GOP_NO_MEMORY;
}

static void sim_release(gop_ctx *ctx, void *memory)
{
    (void)ctx;
    gop_sim_memory_give(memory);
}

/* Of the dense layout: broadcast axes count once. */
static int64_t dense_elements(const gop_array *array)
{
    int64_t count = 1;
    for (int d = 0; d < array->ndim; d++)
        if (array->strides[d] != 0) count *= array->shape[d];
    return count;
}

static gop_status sim_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    (void)ctx;
    gop_lent->pack(host, 0, dense_elements(device), device->data);
    return GOP_OK;
}

static gop_status sim_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    (void)ctx;
    gop_lent->unpack(host, 0, dense_elements(device), device->data);
    return GOP_OK;
}

static gop_status sim_mark(gop_ctx *ctx, int event)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ((sim_ctx *)ctx)->marks[event] = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return GOP_OK;
}

static gop_status sim_elapsed(gop_ctx *ctx, int from, int to, double *seconds)
{
    *seconds = ((sim_ctx *)ctx)->marks[to] - ((sim_ctx *)ctx)->marks[from];
    return GOP_OK;
}

static gop_status sim_sync(gop_ctx *ctx)
{
    (void)ctx;
    return gop_lent->interrupted();
}

static gop_status sim_flush(gop_ctx *ctx)
{
    (void)ctx; /* there are no caches to empty */
    return GOP_OK;
}

static const gop_ladder *sim_ladder(gop_op op)
{
    static const gop_ladder *const table[] = {
#define GOP_OP(name, stem) &gop_cuda_##name,
#include "ops.def"
#undef GOP_OP
    };
    return table[op];
}

static const gop_backend sim_backend = {
    .abi = GOP_ABI,
    .id = GOP_SIM,
    .name = "sim",
    .count = sim_count,
    .info = sim_info,
    .context = sim_context,
    .alloc = sim_alloc,
    .release = sim_release,
    .upload = sim_upload,
    .download = sim_download,
    .mark = sim_mark,
    .elapsed = sim_elapsed,
    .sync = sim_sync,
    .flush = sim_flush,
    .ladder = sim_ladder,
    .profile = gop_sim_profile,
};

__attribute__((visibility("default"))) const gop_backend *gop_backend_open(uint32_t abi,
                                                                           const gop_host *host)
{
    if (abi != GOP_ABI || host->abi != GOP_ABI) return NULL;
    gop_lent = host;
    return &sim_backend;
}
