/*
 * planar.cu - transpose of two to sixteen long rows: points of x, y, z or pixels of red,
 * green, blue, and back.
 *
 * An axis of three wastes a tile. But 16 bytes of each of three rows are 48 neighbouring bytes
 * of the other side: a thread holds them in registers, and since the compiler knows the
 * permutation, it costs a few byte permutations. Shared memory only makes accesses coalesce on
 * the side where a thread has several neighbouring pieces.
 */
#include <string.h>

#include "cuda/transpose/index.h"

enum { AROUND = 6 };

/* More rows of wide items are as fast in boxes or tiles. */
static constexpr int most_rows(int item)
{
    return item <= 8 ? 16 : 8;
}

/* Threads of a block: its tile has at most 32 KiB. */
static constexpr int threads_for(int rows)
{
    return rows <= 8 ? 256 : 128;
}

template <int ROWS> struct interleaved_block {
    enum { THREADS = threads_for(ROWS) };
};

/* Strides in pieces of 16 bytes, of which `pieces` make a row. */
struct interleaving {
    int64_t row;
    uint32_t pieces;
    fast_divisor blocks; /* of one batch */
    int batch_rank;
    fast_divisor extent[AROUND]; /* of the batch, its fastest axis first */
    int64_t in[AROUND], out[AROUND];
};

/* Where a piece lies in shared memory. 8 threads that are ROWS pieces apart should meet 8
 * different groups of banks. If ROWS is odd they do so by themselves; if 2^k divides it, 2^k of
 * them meet in each, and so each 8 / 2^k threads take another one. */
template <int ROWS> GOP_DEVICE int interleaved_place(int i)
{
    enum { SAME = (ROWS | 8) & -(ROWS | 8) }; /* of 16, too, 8 */
    return i ^ i / (8 / SAME * ROWS) % SAME;
}

/* FROM_ROWS: rows become neighbours; else neighbours become rows. */
template <typename T, int ROWS, bool FROM_ROWS>
__global__ void __launch_bounds__(interleaved_block<ROWS>::THREADS)
    transpose_planar_kernel(uint4 *out, const uint4 *in, const __grid_constant__ interleaving p)
{
    enum { N = 16 / sizeof(T), THREADS = interleaved_block<ROWS>::THREADS };
    __shared__ uint4 tile[THREADS * ROWS];
    uint32_t batch = quotient(blockIdx.x, p.blocks);
    const uint32_t first = (blockIdx.x - batch * p.blocks.d) * THREADS;
    for (int axis = 0; axis < p.batch_rank; axis++) {
        const int64_t i = take_index(batch, p.extent[axis]);
        in += i * p.in[axis];
        out += i * p.out[axis];
    }
    const int pieces = (int)min_of(p.pieces - first, THREADS);
    const int own = threadIdx.x;
    const uint4 *const neighbours_in = in + (int64_t)first * ROWS;
    uint4 *const neighbours_out = out + (int64_t)first * ROWS;

    grid_dependency_sync();
    uint4 v[ROWS];
    T items[ROWS * N], turned[ROWS * N];
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        const int i = own + k * THREADS;
        v[k] = make_uint4(0, 0, 0, 0);
        if (FROM_ROWS && own < pieces) v[k] = in[k * p.row + first + own];
        if (!FROM_ROWS && i < ROWS * pieces) v[k] = neighbours_in[i];
    }
    if (!FROM_ROWS) {
#pragma unroll
        for (int k = 0; k < ROWS; k++) tile[interleaved_place<ROWS>(own + k * THREADS)] = v[k];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ROWS; k++) v[k] = tile[interleaved_place<ROWS>(own * ROWS + k)];
    }
    __builtin_memcpy(items, v, sizeof items);
#pragma unroll
    for (int row = 0; row < ROWS; row++)
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (FROM_ROWS) turned[k * ROWS + row] = items[row * N + k];
            else turned[row * N + k] = items[k * ROWS + row];
        }
    __builtin_memcpy(v, turned, sizeof turned);
    if (FROM_ROWS) {
#pragma unroll
        for (int k = 0; k < ROWS; k++) tile[interleaved_place<ROWS>(own * ROWS + k)] = v[k];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ROWS; k++) v[k] = tile[interleaved_place<ROWS>(own + k * THREADS)];
    }
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        const int i = own + k * THREADS;
        if (FROM_ROWS && i < ROWS * pieces) neighbours_out[i] = v[k];
        if (!FROM_ROWS && own < pieces) out[k * p.row + first + own] = v[k];
    }
}

/* ---- on the host ---- */

/* The axis of extent `rows` whose neighbours lie side by side in `along`, and the one that goes
 * on from there, is contiguous in `across`, and is no shorter; false if there are none. */
static bool find_rows(const gop_permutation &g, int most, const int64_t *along,
                      const int64_t *across, int *rows, int *line)
{
    *rows = *line = -1;
    for (int axis = 0; axis < g.rank; axis++)
        if (along[axis] == 1 && g.extent[axis] > 1 && g.extent[axis] <= most) *rows = axis;
    for (int axis = 0; *rows >= 0 && axis < g.rank; axis++)
        if (across[axis] == 1 && along[axis] == g.extent[*rows] &&
            g.extent[axis] >= g.extent[*rows])
            *line = axis;
    return *line >= 0;
}

struct interleaved_plan {
    interleaving rows;
    unsigned blocks;
};

template <typename T, int ROWS, bool FROM_ROWS>
static gop_status transpose_planar(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const interleaved_plan &p = *GOP_OWN(const interleaved_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (transpose_planar_kernel<T, ROWS, FROM_ROWS>),
                            dim3(p.blocks), interleaved_block<ROWS>::THREADS, 0,
                            (uint4 *)task->out[0].data, (const uint4 *)task->in[0].data,
                            p.rows);
}

/* The launch for `rows` rows; tries ROWS, then fewer. */
template <typename T, int ROWS> static gop_launch launch_for(int rows, bool from_rows)
{
    if constexpr (ROWS > 2)
        if (rows < ROWS) return launch_for<T, ROWS - 1>(rows, from_rows);
    return from_rows ? transpose_planar<T, ROWS, true> : transpose_planar<T, ROWS, false>;
}

template <typename T> static gop_launch launch_of(int rows, bool from_rows)
{
    return launch_for<T, most_rows(sizeof(T))>(rows, from_rows);
}

static gop_status transpose_planar_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    interleaving &p = GOP_OWN(interleaved_plan, plan)->rows;
    memset(&p, 0, sizeof p); /* unused fields too: equal arguments must be equal bytes */
    int axis = -1, line = -1;
    const int item = transpose_widen(task, &g), most = most_rows(item), n = 16 / item;
    const bool from_rows = find_rows(g, most, g.out, g.in, &axis, &line);
    if (!from_rows && !find_rows(g, most, g.in, g.out, &axis, &line))
        return gop_fail(GOP_REFUSED,
                        "transpose: the planar kernel takes 2 to %d rows of %d-byte items "
                        "that become neighbours, or as many neighbours that become rows; "
                        "the permutation of this call does neither",
                        most, item);
    const int rows = (int)g.extent[axis];
    p.row = from_rows ? g.in[axis] : g.out[axis];
    int64_t places = g.extent[line] | p.row;
    p.pieces = (uint32_t)(g.extent[line] / n);
    p.row /= n;
    int64_t batches = 1;
    p.batch_rank = 0;
    for (int k = g.rank - 1; k >= 0; k--) {
        if (k == axis || k == line) continue;
        places |= g.in[k] | g.out[k];
        batches *= g.extent[k];
        if (p.batch_rank < AROUND) {
            p.extent[p.batch_rank] = make_fast_divisor(g.extent[k]);
            p.in[p.batch_rank] = g.in[k] / n;
            p.out[p.batch_rank] = g.out[k] / n;
        }
        p.batch_rank++;
    }
    const int64_t blocks = blocks_for(g.extent[line], n * threads_for(rows));
    p.blocks = make_fast_divisor(blocks);
    GOP_OWN(interleaved_plan, plan)->blocks = (unsigned)(blocks * batches);
    plan->launch = TRANSPOSE_BY_ITEM(item, launch_of)(rows, from_rows);
    const bool fills = 2 * (int64_t)p.pieces >= blocks * threads_for(rows) ||
                       blocks * batches <= 8 * (int64_t)ctx->info.processors;
    if (transpose_alignment(task, places, item) % 16 == 0 && p.batch_rank <= AROUND &&
        fits_32_bits(g.extent[line]) && fits_32_bits(blocks * batches) && fills)
        return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "transpose: the planar kernel takes rows that start and end at "
                    "multiples of 16 bytes and have work for half of a block, with at most %d "
                    "axes around them; the rows of this call are not like that",
                    AROUND);
}

extern const gop_row transpose_planar_row = {
    .name = "planar",
    .note = "two to sixteen long rows: a thread turns 16 bytes of each in registers",
    .role = GOP_CONFORMING,
    .plan = transpose_planar_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
