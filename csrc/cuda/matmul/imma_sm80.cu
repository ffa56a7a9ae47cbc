/*
 * imma_sm80.cu - matmul of bytes by the tensor cores, exact modulo 2^8.
 *
 * Tensor cores multiply bytes and sum in 32 bits, modulo 2^32 and so modulo 2^8, whether the
 * bytes have a sign or not. A register holds four neighbouring terms of a sum: operands whose
 * terms are not contiguous are transposed first, one pass over each.
 */
#include "cuda/matmul/tiles.h"
#include "cuda/common/cp_async.h"
#include "cuda/common/mma.h"

struct imma_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int a_transposed, b_transposed;
};

static int64_t imma_apart(int64_t terms)
{
    return (terms + 15) / 16 * 16;
}

#if GOP_SM80

/* An operand as the kernel reads it: lines (rows of a, columns of b) of `terms` bytes, each at
 * a multiple of 16. */
struct imma_operand {
    const uint8_t *lines;
    int64_t apart;   /* from one line to the next */
    int64_t product; /* and from one product of the batch to the next, if it was transposed */
};

struct imma_work {
    matmul_product<uint8_t> p;
    imma_operand a, b;
    int a_transposed, b_transposed;
};

enum { SIDE = 64, SIDE_THREADS = 256 };

/* Transposes an operand: 64 x 64 bytes pass through shared memory. What is beyond the edges is
 * 0. */
__global__ void __launch_bounds__(SIDE_THREADS)
    matmul_imma_turn_kernel(const matmul_product<uint8_t> p, int of_b, uint8_t *to,
                            int64_t apart)
{
    __shared__ uint8_t tile[SIDE][SIDE + 4];
    const matmul_geometry &g = p.g;
    const int64_t lines = of_b ? g.n : g.m;
    const int64_t line_stride = of_b ? g.b_col : g.a_row, l_stride = of_b ? g.b_row : g.a_col;
    const int64_t across = (apart + SIDE - 1) / SIDE, down = (lines + SIDE - 1) / SIDE;
    const int64_t batch = blockIdx.x / (across * down), tile_at = blockIdx.x % (across * down);
    const int64_t line0 = tile_at / across * SIDE, l0 = tile_at % across * SIDE;
    const matmul_offsets of = matmul_batch(g, batch);
    const uint8_t *const from = of_b ? p.b + of.b : p.a + of.a;
    const bool along =
        (l_stride < 0 ? -l_stride : l_stride) <= (line_stride < 0 ? -line_stride : line_stride);
#pragma unroll
    for (int e = 0; e < SIDE * SIDE / SIDE_THREADS; e++) {
        const int at = threadIdx.x + e * SIDE_THREADS;
        const int line = along ? at / SIDE : at % SIDE, l = along ? at % SIDE : at / SIDE;
        const bool exists = line0 + line < lines && l0 + l < g.k;
        tile[line][l] =
            exists ? from[(line0 + line) * line_stride + (l0 + l) * l_stride] : (uint8_t)0;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < SIDE * SIDE / 4 / SIDE_THREADS; e++) {
        const int at = threadIdx.x + e * SIDE_THREADS, line = at / (SIDE / 4);
        const int l = at % (SIDE / 4) * 4;
        if (line0 + line < lines && l0 + l < apart)
            *reinterpret_cast<uint32_t *>(to + (batch * lines + line0 + line) * apart + l0 +
                                          l) =
                *reinterpret_cast<const uint32_t *>(&tile[line][l]);
    }
}

enum { IMMA_M = 128, IMMA_N = 256, IMMA_K = 64, STAGES = 4, IMMA_THREADS = 256 };
enum { WARP = 64, M_TILES = WARP / 16, N_TILES = WARP / 8 };
enum { A_BYTES = IMMA_M * IMMA_K, STAGE_BYTES = A_BYTES + IMMA_N * IMMA_K };

/* Where 16 bytes of a line stand in a tile: two lines fill all banks once, and the chunks of
 * eight lines that are read together all lie in different banks. */
GOP_DEVICE uint32_t imma_place(int line, int chunk)
{
    return (uint32_t)(line * IMMA_K + ((chunk ^ (line >> 1 & 3)) * 16));
}

/* Epilogue: stores the low bytes of a warp's sums, two neighbours at once where they can. */
GOP_DEVICE void imma_put(const matmul_product<uint8_t> &p, const matmul_tile<uint8_t> &tile,
                         const int32_t (&sum)[M_TILES][N_TILES][4], int m0, int n0)
{
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32;
    uint8_t *const out = (uint8_t *)p.out + tile.out;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = m0 + m * 16 + lane / 4 + half * 8;
                const int j = n0 + n * 8 + lane % 4 * 2;
                if (i >= tile.rows || j >= tile.columns) continue;
                uint8_t *const to = out + i * g.out_row + j * g.out_col;
                const uint32_t low = sum[m][n][half * 2], high = sum[m][n][half * 2 + 1];
                if (g.out_col == 1 && ((uintptr_t)to & 1) == 0 && j + 1 < tile.columns) {
                    *reinterpret_cast<uint16_t *>(to) = (uint16_t)((low & 255) | high << 8);
                } else {
                    to[0] = (uint8_t)low;
                    if (j + 1 < tile.columns) to[g.out_col] = (uint8_t)high;
                }
            }
}

__global__ void __launch_bounds__(IMMA_THREADS, 1) matmul_imma_kernel(const imma_work given)
{
    extern __shared__ __align__(128) uint8_t stages[];
    const matmul_product<uint8_t> &p = given.p;
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const matmul_tile<uint8_t> tile = matmul_tile_of<IMMA_M, IMMA_N, RASTER>(p);

    /* Prologue: a thread copies 16 bytes of every 64th row of a and column of b. */
    const int line = threadIdx.x / 4, chunk = threadIdx.x % 4;
    const uint8_t *const a =
        given.a.lines + (given.a_transposed ? tile.batch * given.a.product : tile.of.a);
    const uint8_t *const b =
        given.b.lines + (given.b_transposed ? tile.batch * given.b.product : tile.of.b);
    const uint8_t *from[6];
    unsigned exist = 0;
#pragma unroll
    for (int e = 0; e < 6; e++) {
        const int i = line + e * 64, j = line + (e - 2) * 64;
        from[e] = chunk * 16 + (e < 2 ? a + (p.part.row + tile.i0 + i) * given.a.apart
                                      : b + (tile.j0 + j) * given.b.apart);
        exist |= (unsigned)(e < 2 ? i < tile.rows : j < tile.columns) << e;
    }
    const uint32_t place = address_in_shared(stages) + imma_place(line, chunk);
    const int64_t steps = (g.k + IMMA_K - 1) / IMMA_K;
    int64_t fetched = 0;
    const auto fetch = [&]() {
        if (fetched < steps) {
            const bool there = fetched * IMMA_K + chunk * 16 < g.k;
            const uint32_t to = place + (uint32_t)(fetched % STAGES) * STAGE_BYTES;
#pragma unroll
            for (int e = 0; e < 6; e++)
                cp_async<16>(to + e * 64 * IMMA_K,
                             there && (exist >> e & 1) ? from[e] + fetched * IMMA_K : a,
                             there && (exist >> e & 1));
        }
        fetched++;
        cp_async_commit_group();
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) fetch();

    /* Main loop: wait for a stage, fetch another, multiply. */
    const int m0 = warp % 2 * WARP, n0 = warp / 2 * WARP;
    const uint32_t a_line = (uint32_t)(m0 + lane % 16),
                   b_line = (uint32_t)(n0 + lane % 8 + lane / 16 * 8);
    const int a_chunk = lane / 16, b_chunk = lane / 8 % 2;
    int32_t sum[M_TILES][N_TILES][4] = {};
    for (int64_t step = 0; step < steps; step++) {
        cp_async_wait_group<STAGES - 2>();
        __syncthreads();
        fetch();
        const uint32_t tile_a =
            address_in_shared(stages) + (uint32_t)(step % STAGES) * STAGE_BYTES;
        const uint32_t tile_b = tile_a + A_BYTES;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t fa[M_TILES][4], fb[N_TILES / 2][4];
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
                ldmatrix(fa[m], tile_a + imma_place((int)a_line + m * 16, half * 2 + a_chunk));
#pragma unroll
            for (int n = 0; n < N_TILES / 2; n++)
                ldmatrix(fb[n], tile_b + imma_place((int)b_line + n * 16, half * 2 + b_chunk));
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
#pragma unroll
                for (int n = 0; n < N_TILES; n++) {
                    const uint32_t of_b[2] = {fb[n / 2][n % 2 * 2], fb[n / 2][n % 2 * 2 + 1]};
                    mma_sync(sum[m][n], fa[m], of_b);
                }
        }
    }

    imma_put(p, tile, sum, m0, n0);
}

static gop_status imma_turn(gop_ctx *ctx, const matmul_product<uint8_t> &p, int of_b,
                            uint8_t *to)
{
    const int64_t apart = imma_apart(p.g.k), lines = of_b ? p.g.n : p.g.m;
    const int64_t blocks =
        (apart + SIDE - 1) / SIDE * ((lines + SIDE - 1) / SIDE) * p.g.batches;
    return GOP_LAUNCH(ctx, matmul_imma_turn_kernel, (unsigned)blocks, SIDE_THREADS, 0, p, of_b,
                      to, apart);
}

static gop_status matmul_imma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const imma_cut &cut = *GOP_OWN(const imma_cut, task->plan);
    imma_work given;
    given.p = matmul_product_of<uint8_t>(task, matmul_part_of(task, step));
    const matmul_geometry &g = given.p.g;
    const int64_t apart = imma_apart(g.k);
    uint8_t *to = (uint8_t *)task->scratch;
    given.a_transposed = cut.a_transposed;
    given.b_transposed = cut.b_transposed;
    given.a = {given.p.a, g.a_row, 0};
    given.b = {given.p.b, g.b_col, 0};
    if (cut.a_transposed) {
        if (step == 0) GOP_TRY(imma_turn(ctx, given.p, 0, to));
        given.a = {to, apart, g.m * apart};
        to += g.batches * g.m * apart;
    }
    if (cut.b_transposed) {
        if (step == 0) GOP_TRY(imma_turn(ctx, given.p, 1, to));
        given.b = {to, apart, g.n * apart};
    }
    return GOP_LAUNCH(ctx, matmul_imma_kernel, (matmul_tile_count<IMMA_M, IMMA_N>(given.p)),
                      IMMA_THREADS, STAGES * STAGE_BYTES, given);
}
#endif

static gop_status matmul_imma_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { LEAST = 64 }; /* of each extent: a smaller product wastes most of a tile */
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'imma'", 8, "whose tensor cores take bytes"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_batch(g, "imma"));
    if (g.m < LEAST || g.n < LEAST || g.k < LEAST)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'imma' takes extents of at least %d, got (%lld, %lld) "
                        "outputs of %lld terms",
                        LEAST, (long long)g.m, (long long)g.n, (long long)g.k);
    matmul_plan_steps(ctx, task, 0.1, plan);
    imma_cut *const cut = GOP_OWN(imma_cut, plan);
    int a = g.a_col == 1 && g.a_row % 16 == 0, b = g.b_row == 1 && g.b_col % 16 == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) {
        a &= g.a[axis] % 16 == 0;
        b &= g.b[axis] % 16 == 0;
    }
    cut->a_transposed = !a || g.k % 16 != 0 || (uintptr_t)task->in[0].data % 16 != 0;
    cut->b_transposed = !b || g.k % 16 != 0 || (uintptr_t)task->in[1].data % 16 != 0;
    plan->scratch = (size_t)(g.batches * imma_apart(g.k) *
                             (cut->a_transposed * g.m + cut->b_transposed * g.n));
    plan->launch = GOP_NATIVE_LAUNCH(matmul_imma);
    return GOP_OK;
}

extern const gop_row matmul_imma_row = {
    .name = "imma",
    .note = "tensor cores multiply bytes and sum modulo 2^32; operands whose terms do not lie "
            "side by side are transposed first",
    .role = GOP_CONFORMING,
    .plan = matmul_imma_plan,
    GOP_NATIVE_DTYPES(1u << GOP_INT8 | 1u << GOP_UINT8),
    .before = "bytes",
};
