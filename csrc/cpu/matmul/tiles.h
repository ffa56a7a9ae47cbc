/*
 * tiles.h - how matmul's packed kernels divide their work: panels, tiles, rounds.
 */
#ifndef GOP_CPU_MATMUL_TILES_H
#define GOP_CPU_MATMUL_TILES_H

#include "cpu/matmul/rows.h"

enum {
    PACKED_AS = 64,      /* products that take as long as packing one number, at worst */
    STRIP_BYTES = 1536,  /* of a strip's numbers for each l: KC of them stay in L2 */
    SUM_BYTES = 64 << 20 /* of the sums of a group's tiles, at most */
};

/* What the packed kernels need to know about a dtype's register kernel. */
typedef struct packing {
    int mr, nr, item, planes, is_float;
    int is_wide; /* panels hold the dtype itself */
    gop_body body, shared, shared_end, mirror;
} packing;

/* The plan. A tile is tile_rows x tile_cols of one product of the batch, with contiguous
 * accumulators in scratch. Workers share nothing, and the order over l depends only on k. If
 * there are few tiles and long sums, workers instead compute blocks of KC terms, which are
 * added in their order, with the same bits. */
typedef struct product {
    sides s;
    int mr;          /* most rows of a panel of a */
    int is_padded;   /* all panels have as many */
    int in_out;      /* sums are kept in out, else in scratch */
    int is_mirrored; /* a times its transpose: blocks below the diagonal are copied */
    int64_t tile_rows, tile_cols, tiles_n, tiles_each, tiles;
    int64_t strip;   /* columns of a tile that are packed at a time */
    int64_t round_k; /* values of l between two checks for Ctrl-C */
    int64_t group;   /* tiles that are processed together to the end of k */
    int64_t blocks;  /* blocks of a sum in a round that workers share; 0: not shared */
    size_t a_bytes, b_bytes, sum_bytes; /* of a tile */
    int workers;
} product;

/* A call: the plan, its memory, and the current round. */
typedef struct rounds {
    const product *plan;
    const gop_gemm *gemm;
    const void *a, *b;
    void *out;
    char *scratch;
    int64_t first, l_begin, l_end;
    int64_t blocks; /* blocks of KC terms of this round, if workers share sums */
} rounds;

typedef struct tile {
    int64_t a, b, out; /* offsets in elements */
    int64_t below;     /* its first row's index minus its first column's */
    int64_t rows, cols;
    void *a_panels, *b_panels, *sums;
} tile;

/* Finds tile t of the round: its offsets and extents, and its worker's panels and sums. */
static void locate(const rounds *call, int64_t t, int worker, tile *at)
{
    const product *const p = call->plan;
    const int64_t index = call->first + t, within = index % p->tiles_each;
    const int64_t i0 = within / p->tiles_n * p->tile_rows;
    const int64_t j0 = within % p->tiles_n * p->tile_cols;
    int64_t *const a = p->s.is_swapped ? &at->b : &at->a, *const b =
                                                              p->s.is_swapped ? &at->a : &at->b;
    batch_offsets(call->gemm, index / p->tiles_each, a, b, &at->out);
    at->below = i0 - j0;
    at->a += i0 * p->s.a_row;
    at->b += j0 * p->s.b_col;
    at->out += i0 * p->s.out_row + j0 * p->s.out_col;
    at->rows = p->s.m - i0 < p->tile_rows ? p->s.m - i0 : p->tile_rows;
    at->cols = p->s.n - j0 < p->tile_cols ? p->s.n - j0 : p->tile_cols;

    char *const own = call->scratch + (size_t)worker * (p->a_bytes + p->b_bytes);
    char *const sums = call->scratch + (size_t)p->workers * (p->a_bytes + p->b_bytes);
    const int64_t slot = p->round_k < p->s.k && !p->in_out ? t : worker;
    at->a_panels = own;
    at->b_panels = own + p->a_bytes;
    at->sums = sums + (size_t)slot * p->sum_bytes;
}

/* The sums of a tile: of all blocks so far (-1), or of one block of the round. */
static void *sums_of(const rounds *call, int64_t t, int64_t block)
{
    const product *const p = call->plan;
    return call->scratch + (size_t)p->workers * (p->a_bytes + p->b_bytes) +
           (size_t)(t * (p->blocks + 1) + block + 1) * p->sum_bytes;
}

/* The most rows of a panel; dtypes without a kernel for every number have 1, 4 or MR. */
static int panel_rows(int64_t m, const packing *with)
{
    if (with->is_float) return (int)gop_smaller(m, with->mr);
    return m == 1 ? 1 : m <= 4 ? 4 : with->mr;
}

/* The first row of a tile's panel. Panels are equal but for a row, and none has padding, if
 * there is a kernel for every number of rows. */
static inline int64_t panel_begin(const product *p, int64_t rows, int64_t panel)
{
    return p->is_padded ? panel * p->mr : rows * panel / gop_ceil(rows, p->mr);
}

static int64_t round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* The work with padding, in products. If out's columns are strided, sums are kept elsewhere and
 * scattered at the end, which costs a quarter more. */
static double padded_work(int64_t m, int64_t n, int64_t out_col, const packing *with)
{
    const int64_t rows = with->is_float ? m : round_up(m, panel_rows(m, with));
    return (double)rows * (double)round_up(n, with->nr) * (out_col == 1 ? 1 : 1.25);
}

/* The largest equal pieces of whole panels, of at most `target`. */
static int64_t even_tile(int64_t extent, int64_t target, int64_t panel)
{
    const int64_t pieces = (extent + target - 1) / target;
    return round_up((extent + pieces - 1) / pieces, panel);
}

/* Chooses the tiles. A strip's panels of b stay in the L2 cache while the panels of a pass over
 * them. A tile of several strips packs its rows of a only once. But its time is limited:
 * without a vector instruction for a multiply-add, one block of k takes long enough. */
static void cut_tiles(product *p, const packing *with, int64_t batches)
{
    const int is_slow = VECTOR == 16, is_float = with->is_float;
    const int64_t width = STRIP_BYTES / (with->item * with->planes);
    int64_t rows = is_slow ? 48 : p->in_out ? 784 : 392, cols;
    p->strip = is_slow && width > 96 ? 96 : width > 768 ? 768 : width;
    cols = p->strip * (is_float && !is_slow ? 4 : 1);
    const int64_t budget = 2 * rows * cols; /* outputs times blocks of k in a round */
    for (;;) {
        p->tile_rows = even_tile(p->s.m, rows, p->mr);
        p->tile_cols = even_tile(p->s.n, cols, with->nr);
        p->tiles_n = (p->s.n + p->tile_cols - 1) / p->tile_cols;
        p->tiles_each = (p->s.m + p->tile_rows - 1) / p->tile_rows * p->tiles_n;
        p->tiles = p->tiles_each * batches;
        /* Enough tiles for every worker, as long as packing is cheap beside multiplying. */
        if (p->workers == 1 || p->tiles >= 3 * p->workers) break;
        if (rows <= 64 && cols <= 64) break;
        if (rows >= cols) rows /= 2;
        else cols /= 2;
    }
    if (p->strip > p->tile_cols) p->strip = p->tile_cols;
    p->strip = round_up(p->strip, with->nr);
    /* Packing a number takes as long as some products. */
    const int64_t packed = PACKED_AS * (p->tile_rows + p->tile_cols);
    p->round_k = budget / (p->tile_rows * p->tile_cols + packed) * KC;
    if (p->round_k < KC) p->round_k = KC;
}

/* The number of blocks in a round if workers share sums: enough to have work between two
 * barriers. 0: they do not share. */
static int64_t shared_blocks(const product *p, int64_t k, int is_float)
{
    enum {
        LEAST = 8,        /* blocks of a sum, below which barriers cost too much */
        BLOCKS = 16,      /* of a worker in a round */
        CACHED = 4 << 20, /* bytes of all sums of a round */
    };
    const int64_t all = (k + KC - 1) / KC;
    if (!is_float || p->workers == 1 || p->tiles >= 3 * p->workers || all < LEAST) return 0;
    int64_t blocks = BLOCKS * p->workers / p->tiles + 1;
    while (blocks > 2 && blocks * p->tiles * (int64_t)p->sum_bytes > CACHED) blocks /= 2;
    return gop_smaller(blocks, all);
}

/* Whether b is a with its last two axes exchanged: the same memory, read in the same way. */
static int is_own_transpose(const gop_call *call)
{
    const gop_array *a = &call->in[0], *b = &call->in[1];
    const int rank = a->ndim;
    if (a->data != b->data || a->stored != b->stored || rank != b->ndim || rank < 2) return 0;
    for (int axis = 0; axis < rank; axis++) {
        const int other = axis < rank - 2 ? axis : 2 * rank - 3 - axis;
        if (a->shape[axis] != b->shape[other] || a->strides[axis] != b->strides[other])
            return 0;
    }
    return 1;
}

static gop_status plan_product(const gop_task *task, const packing *with, int workers,
                               gop_plan *plan)
{
    product *const p = GOP_OWN(product, plan);
    const gop_gemm *g = &task->geometry.gemm;
    /* Complex products add their four parts in another order if a and b are swapped. So for
     * them the choice must not depend on the width of a register. */
    const int is_swapped = with->planes == 2 ? g->n < g->m && g->n <= 4
                                             : padded_work(g->n, g->m, g->out_row, with) <
                                                   padded_work(g->m, g->n, g->out_col, with);
    *p = (product){.s = sides_of(g, is_swapped), .workers = workers < 1 ? 1 : workers};
    p->mr = panel_rows(p->s.m, with);
    p->is_padded = !with->is_float;
    p->in_out = with->is_wide && p->s.out_col == 1;
    p->is_mirrored = is_own_transpose(task->call) && g->m == g->n;
    cut_tiles(p, with, g->batches);

    const size_t item = (size_t)(with->item * with->planes);
    const size_t kc = (size_t)(p->s.k < KC ? p->s.k : KC);
    p->a_bytes = (size_t)round_up((int64_t)((size_t)p->tile_rows * kc * item), 64);
    p->b_bytes = (size_t)round_up((int64_t)((size_t)p->strip * kc * item), 64);
    const int64_t whole = p->tile_rows * p->tile_cols;
    p->sum_bytes = (size_t)round_up(whole * (int64_t)item, 64);
    p->group = p->tiles;
    plan->scratch = (size_t)p->workers * (p->a_bytes + p->b_bytes);
    p->blocks = shared_blocks(p, p->s.k, with->is_float);
    if (p->blocks) {
        p->in_out = 0;
        p->round_k = p->blocks * KC;
        plan->scratch += (size_t)(p->tiles * (p->blocks + 1)) * p->sum_bytes;
        return GOP_OK;
    }

    const int64_t sums = p->in_out ? p->mr * with->nr : whole;
    p->sum_bytes = (size_t)round_up(sums * (int64_t)item, 64);
    if (p->round_k < p->s.k) {
        const int64_t fit = (int64_t)((size_t)SUM_BYTES / p->sum_bytes);
        p->group = fit < 4 * p->workers ? fit : 4 * p->workers;
        if (p->group < p->workers) p->group = p->workers;
        if (p->group > p->tiles) p->group = p->tiles;
    }
    const int64_t slots = p->round_k < p->s.k && !p->in_out ? p->group : p->workers;
    plan->scratch += (size_t)slots * p->sum_bytes;
    return GOP_OK;
}

#endif
