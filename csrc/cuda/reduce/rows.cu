/*
 * rows.cu - reduce: contiguous rows of some 13 to 128 elements, by way of shared memory.
 *
 * A thread that has a row of its own folds it in registers and waits for no other; but the 32
 * threads of a warp would each load from another line. So a block copies as many rows as it has
 * threads, or a multiple, to shared memory in pieces of 16 bytes. There a thread reads its row
 * in words. A row has an odd number of words, so there are no bank conflicts, or two-way ones
 * if words are made of two; rows with an even number of pieces are padded by one piece.
 */
#include <string.h>

#include "cuda/reduce/leaf.h"
#include "cuda/reduce/nodes.h"
#include "cuda/reduce/plan.h"
#include "cuda/common/l2_policy.h"

enum {
    ROW_THREADS = 128, /* of a block; rows of as many are a multiple of 16 bytes */
    PIECE = 16,        /* bytes */
    PIECES = 8,        /* of a thread under way at once */
    CHUNK_BYTES = 8 << 10,
    MOST_ROW = 368, /* bytes from one to the next: those of a block are 48 KB at most */
    LEAST_LINE = ROW_THREADS / 2,
    WAITING = 3 /* levels of batches of words that wait to be folded */
};

/* The rows of a block; bytes from one to the next in memory and in shared memory; the divisor
 * by a row's pieces; the number of batches of words, a power of two; blocks of a line, which is
 * the last kept axis; and the bytes that all rows span. */
struct row_shape {
    int rows, pitch, apart, turns;
    fast_divisor pieces;
    unsigned blocks;
    int reverse;
    int64_t bytes;
};

/* Words of at most BYTES that a thread reads at once: as many accumulators as fit into
 * registers. */
template <typename M, int BYTES> struct row_words {
    typedef typename M::T T;
    enum {
        ITEM = sizeof(T),
        ACC = M::F::ORDERED ? sizeof(typename M::F::acc) : 1,
        FIT = 64 / ACC < BYTES / ITEM ? 64 / ACC : BYTES / ITEM,
        N = FIT > 1 ? FIT : 1, /* elements of one */
        MOST = 128 / (N * ACC),
        BATCH = !M::F::ORDERED ? 4
                : MOST < 16    ? MOST
                               : 16,
        SHIFTED = BYTES < PIECE && ITEM < 4 /* rows that start between words */
    };
    typedef group_of<T, N> V;
    typedef typename group_word<sizeof(V)>::type word_t;
};

/* ---- to shared memory ---- */

/* Loads the piece in which the array begins or ends, with zeros for the bytes outside. */
template <typename T>
GOP_DEVICE uint4 load_part(const char *at, const char *begin, const char *end)
{
    group_of<T, PIECE / sizeof(T)> v = {};
#pragma unroll
    for (int i = 0; i < v.N; i++) {
        const char *const item = at + i * sizeof(T);
        if (item >= begin && item < end) v.at[i] = *reinterpret_cast<const T *>(item);
    }
    uint4 piece;
    __builtin_memcpy(&piece, &v, sizeof piece);
    return piece;
}

/* Loads pieces `first`, first + ROW_THREADS, .. below `pieces`, from `from` on. */
template <typename T> GOP_DEVICE void load_rows(char *raw, const char *from, int pieces,
                                                const char *begin, const row_shape &p)
{
    const char *const end = begin + p.bytes;
    const int gap = p.apart - p.pitch;
#pragma unroll 1
    for (int first = threadIdx.x; first < pieces; first += PIECES * ROW_THREADS) {
        uint4 v[PIECES];
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
            const int i = first + k * ROW_THREADS;
            const char *const at = from + i * PIECE;
            if (i >= pieces) break;
            if (at >= begin && at + PIECE <= end) v[k] = *reinterpret_cast<const uint4 *>(at);
            else v[k] = load_part<T>(at, begin, end);
        }
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
            const int i = first + k * ROW_THREADS;
            if (i >= pieces) break;
            const int gaps = gap ? (int)quotient(i, p.pieces) * gap : 0;
            *reinterpret_cast<uint4 *>(raw + i * PIECE + gaps) = v[k];
        }
    }
}

/* ---- a thread's row ---- */

/* Words of a row, one after another: elements k N to k N + N - 1. */
template <typename W, bool SHIFTED> struct row_reader {
    const char *row;
    GOP_DEVICE row_reader(const char *row) : row(row) {}
    GOP_DEVICE W word(int k) const { return *reinterpret_cast<const W *>(row + k * sizeof(W)); }
};
/* The same where rows start between words: a word is made of two of shared memory. */
template <> struct row_reader<uint32_t, true> {
    const uint32_t *first;
    unsigned shift;
    GOP_DEVICE row_reader(const char *row)
        : first(reinterpret_cast<const uint32_t *>(row - (uintptr_t)row % 4)),
          shift(8 * (unsigned)((uintptr_t)row % 4))
    {
    }
    GOP_DEVICE uint32_t word(int k) const
    {
        return __funnelshift_r(first[k], first[k + 1], shift);
    }
};

/* Where order does not matter: word by word, and the last elements one by one. */
template <typename M, typename S>
GOP_DEVICE typename M::F::acc gathered_row(const char *row, int n, int key_flags)
{
    typedef gather_of<M> G;
    enum { N = S::N, BATCH = S::BATCH };
    const row_reader<typename S::word_t, S::SHIFTED> reader(row);
    typename G::acc acc = G::none();
    const int words = n / N;
#pragma unroll 1
    for (int k = 0; k < words; k += BATCH) {
        typename S::V v[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (k + b < words) {
                const auto word = reader.word(k + b);
                __builtin_memcpy(&v[b], &word, sizeof v[b]);
            }
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (k + b < words) add_neighbours<M>(acc, v[b], (k + b) * N, key_flags);
    }
#pragma unroll 1
    for (int k = words * N; k < n; k++)
        G::add(acc, reinterpret_cast<const typename M::T *>(row)[k], k, key_flags);
    return G::root(acc, 0, key_flags);
}

/* In the tree's order: an element to a lane, those of a word side by side. A batch has the
 * words that fold first, and batches come in the order in which they fold. */
template <typename M, typename S>
GOP_DEVICE typename M::F::acc ordered_row(const char *row, int n, int turns, int key_flags)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { N = S::N, BATCH = S::BATCH };
    const row_reader<typename S::word_t, S::SHIFTED> reader(row);
    R value[N], waiting[WAITING][N];
#pragma unroll
    for (int i = 0; i < N; i++) value[i] = F::none();
#pragma unroll 1
    for (int t = 0; t < turns; t++) {
        const int first = group_of_turn(t, turns);
        R lane[N][BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int at = (first + b * turns) * N;
#pragma unroll
            for (int i = 0; i < N; i++) lane[i][b] = F::none();
            if (at < n) {
                typename S::V v;
                const auto word = reader.word(first + b * turns);
                __builtin_memcpy(&v, &word, sizeof v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    if (at + i < n) lane[i][b] = M::of(v.at[i], at + i, key_flags);
            }
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            fold_own<F, BATCH>(lane[i]);
            value[i] = lane[i][0];
        }
        fold_turns<F, WAITING>(t, waiting, value);
    }
    fold_own<F, N>(value);
    return value[0];
}

template <typename M, int BYTES>
GOP_DEVICE typename M::F::acc root_of_row(const char *row, int n, int turns, int key_flags)
{
    typedef row_words<M, BYTES> S;
    if constexpr (M::F::ORDERED) return ordered_row<M, S>(row, n, turns, key_flags);
    else return gathered_row<M, S>(row, n, key_flags);
}

/* Blocks that an SM should hold: as registers allow. */
template <typename M> constexpr int row_blocks()
{
    return M::F::ORDERED ? 5 : 8;
}

template <typename M, int BYTES> __global__ void __launch_bounds__(ROW_THREADS, row_blocks<M>())
    reduce_rows_kernel(const __grid_constant__ reduce_brief r,
                       const __grid_constant__ row_shape p)
{
    extern __shared__ uint4 storage[];
    char *const raw = reinterpret_cast<char *>(storage);
    const int inner = r.g.kept - 1, n = (int)r.g.count;
    const unsigned block = l2_block(p.reverse), line = block / p.blocks;
    const int64_t row = (block - line * p.blocks) * (int64_t)p.rows, of = r.g.extent[inner];
    const int rows = (int)(of - row < p.rows ? of - row : p.rows);
    const char *const begin = static_cast<const char *>(r.a);
    const char *const a =
        begin + row * p.pitch + place_of(r.g, 0, inner, line).in * (int)sizeof(typename M::T);
    const int past = (int)((uintptr_t)a % PIECE);
    const int end = past + (rows - 1) * p.pitch + n * (int)sizeof(typename M::T);
    grid_dependency_sync();
    load_rows<typename M::T>(raw, a - past, (end + 3) / PIECE + 1, begin, p);
    __syncthreads();
#pragma unroll 1
    for (int q = threadIdx.x; q < rows; q += ROW_THREADS)
        finish(r, line * of + row + q,
               root_of_row<M, BYTES>(raw + past + q * p.apart, n, p.turns, r.key_flags));
}

/* ---- the plan ---- */

struct rows_launch {
    reduce_brief r;
    row_shape shape;
    bool alternates;
};

template <typename M, int BYTES>
static gop_status reduce_rows(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const rows_launch &own = *GOP_OWN(const rows_launch, task->plan);
    row_shape p = own.shape;
    p.reverse = own.alternates ? l2_reverse<GOP_OP_reduce>() : 0;
    const gop_reduction &g = task->geometry.reduction;
    const int64_t lines = g.outputs / g.extent[g.kept - 1];
    return GOP_LAUNCH_FIRST(ctx, task, 0, (reduce_rows_kernel<M, BYTES>),
                            dim3((unsigned)(lines * p.blocks)), dim3(ROW_THREADS),
                            (size_t)(p.rows * p.apart + 2 * PIECE),
                            reduce_addressed(task, own.r), p);
}

/* How many batches of words the lanes of the tree make; 0: more than can wait. */
template <typename M, int BYTES> static int turns_of(int64_t count)
{
    typedef row_words<M, BYTES> S;
    int turns = 1;
    while (M::F::ORDERED && turns * S::BATCH * S::N < count) turns *= 2;
    return turns <= 1 << WAITING ? turns : 0;
}

template <typename M> static gop_status plan_of_map(const gop_task *task, gop_plan *plan)
{
    enum { ITEM = sizeof(typename M::T), LEAST = ITEM < 4 ? 4 : ITEM, ORDERED = M::F::ORDERED };
    const gop_reduction &g = task->geometry.reduction;
    row_shape &p = GOP_OWN(rows_launch, plan)->shape;
    uintptr_t starts = (uintptr_t)task->in[0].data;
    for (int d = 0; d < g.kept; d++) starts |= (uintptr_t)g.in[d] * ITEM;
    const bool divided = starts % PIECE == 0;
    if (p.pitch % PIECE == 0 && !divided)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs rows that are a multiple of %d "
                        "bytes apart to begin at one",
                        PIECE);
    p.pieces = make_fast_divisor(divided ? p.pitch / PIECE : 1);
    p.apart = p.pitch + (divided && p.pitch / PIECE % 2 == 0 ? PIECE : 0);
    p.turns = divided ? turns_of<M, PIECE>(g.count) : turns_of<M, LEAST>(g.count);
    plan->launch = divided ? reduce_rows<M, PIECE> : reduce_rows<M, LEAST>;
    if (p.turns == 0 || (ORDERED && g.count > LANES))
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes no rows of %lld such elements",
                        (long long)g.count);
    return GOP_OK;
}

static const reduce_by_map<reduce_map_plan> plans = REDUCE_BY_MAP(plan_of_map, nullptr);

/* Whether no stride is negative: then all between the first row and the last belongs to the
 * array. */
static bool is_forward(const gop_reduction &g)
{
    for (int d = 0; d < g.kept; d++)
        if (g.in[d] < 0) return false;
    return true;
}

static gop_status reduce_rows_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const reduce_map_plan plan_it = reduce_of_call(plans, task);
    GOP_TRY(reduce_in_order(task, plan_it));
    const int64_t item = item_of(task), line = g.kept > 0 ? g.extent[g.kept - 1] : 0;
    const int64_t pitch = g.kept > 0 ? g.in[g.kept - 1] : 0;
    if (pitch < g.count || 2 * pitch > 3 * g.count || pitch * item > MOST_ROW ||
        !is_forward(g) || (g.kept > 1 && line < LEAST_LINE))
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs contiguous rows that begin at most %d bytes "
                        "and at most 1.5 row lengths apart, %d of them or more side by side if "
                        "several axes are kept",
                        MOST_ROW, LEAST_LINE);
    rows_launch &own = *GOP_OWN(rows_launch, plan);
    memset(&own, 0, sizeof own); /* unused fields too: equal arguments must be equal bytes */
    reduce_arguments(task, &own.r, plan);
    row_shape &p = own.shape;
    p.pitch = (int)(pitch * item);
    p.bytes = g.count * item;
    for (int d = 0; d < g.kept; d++) p.bytes += (g.extent[d] - 1) * g.in[d] * item;
    const int64_t busy = g.kept > 1 ? 4 : 8 * (int64_t)ctx->info.processors; /* blocks */
    p.rows = ROW_THREADS;
    while (2 * p.rows * p.pitch <= CHUNK_BYTES && line >= 2 * p.rows * busy) p.rows *= 2;
    const int64_t blocks = blocks_for(line, p.rows);
    if (g.outputs / line * blocks > INT32_MAX)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes fewer than 2^31 blocks");
    p.blocks = (unsigned)blocks;
    own.alternates = reduce_exceeds_l2(ctx, task);
    return plan_it(task, plan);
}

extern const gop_row reduce_rows_row = {
    .name = "rows",
    .note = "short rows, one upon the other: a block brings them to shared memory as they lie, "
            "and a thread folds a row by itself",
    .role = GOP_CONFORMING,
    .plan = reduce_rows_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
