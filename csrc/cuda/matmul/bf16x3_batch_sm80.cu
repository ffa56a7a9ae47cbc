/*
 * bf16x3_batch_sm80.cu - matmul of float32 and complex64 by tensor cores in one launch:
 * batches, and products of mid size, of operands that lie in any way.
 *
 * Copies of 16 bytes, and TMA, want lines that begin at multiples of 16 bytes, and a row of 197
 * numbers does not. So a warp loads whole lines of memory, a number a thread, wherever they
 * begin. A thread loads eight numbers that lie across that direction and splits each into three
 * bfloat16. It stores eight parts as 16 bytes, since tensor cores take either order. A number
 * is split once a block, and while one block waits for its loads the others of its SM multiply.
 * Sums leave by way of shared memory, so that a warp stores whole lines too.
 *
 * A complex product is a real one of twice the columns and twice the terms. A number that three
 * bfloat16 cannot hold is noticed by the thread that splits it, or in the sums. Then the block
 * computes its outputs again, term by term.
 */
#include "cuda/matmul/bf16x3_batch.h"

/* A block computes a tile of 64 x 64 reals, 32 of the terms at a time: a stage. Each of its
 * warpgroups has every GROUPS'th stage of the sums, and two in shared memory. */
enum { BATCH_TERMS = 32 };
enum { BATCH_PIECE = BATCH_SIDE * BATCH_TERMS * 2, BATCH_OPERAND = 3 * BATCH_PIECE };
enum { BATCH_STAGE = 2 * BATCH_OPERAND, BATCH_ALIGNED = 1024 }; /* bytes */

static inline constexpr int batch_shared(int groups)
{
    return groups * 2 * BATCH_STAGE + BATCH_ALIGNED;
}

/* What a plan decides. */
struct bf16x3_batch_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int64_t split, chunk;
    bool swapped;   /* the transposed product, of the transposed operands */
    bool of_itself; /* b is a's transpose: the triangle above the diagonal is mirrored */
    bool wide[2];   /* of a and b: loads of 16 bytes */
    bool first[2];  /* of a and b: in shared memory terms are neighbours, else lines */
    int groups;     /* warpgroups of a block */
    int cluster;    /* blocks that share a tile: each has `part` of the terms */
    int64_t part;
};

#if GOP_SM80

#include "cuda/common/mma.h"
#include "cuda/common/tma.h"

/* ---- operands: from memory to parts in shared memory ---- */

/* FOUR neighbours or one, or zeros; a branch costs more than the load. Of a WHOLE stage
 * all exist. */
template <int FOUR, bool WHOLE> GOP_DEVICE void load_if(float *x, bool exists, const void *from)
{
#if GOP_CODE_SM80
    if constexpr (WHOLE && FOUR)
        asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                     : "l"(from)
                     : "memory");
    else if constexpr (WHOLE)
        asm volatile("ld.global.f32 %0, [%1];" : "=f"(*x) : "l"(from) : "memory");
    else if constexpr (FOUR)
        asm volatile("{\n"
                     ".reg .pred exists;\n"
                     "setp.ne.b32 exists, %4, 0;\n"
                     "mov.f32 %0, 0f00000000;\n"
                     "mov.f32 %1, 0f00000000;\n"
                     "mov.f32 %2, 0f00000000;\n"
                     "mov.f32 %3, 0f00000000;\n"
                     "@exists ld.global.v4.f32 {%0, %1, %2, %3}, [%5];\n"
                     "}"
                     : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                     : "r"((int)exists), "l"(from)
                     : "memory");
    else
        asm volatile("{\n"
                     ".reg .pred exists;\n"
                     "setp.ne.b32 exists, %1, 0;\n"
                     "mov.f32 %0, 0f00000000;\n"
                     "@exists ld.global.f32 %0, [%2];\n"
                     "}"
                     : "=f"(*x)
                     : "r"((int)exists), "l"(from)
                     : "memory");
#endif
}

/* Where a part lies: lines of 32 terms, or terms of 64 lines, in chunks of eight that are
 * swizzled as wgmma wants them. */
template <bool TERMS_FIRST> GOP_DEVICE int batch_place(int line, int term)
{
    if (TERMS_FIRST) return line * 64 + ((term / 8 ^ line / 2) & 3) * 16 + term % 8 * 2;
    return term * 128 + ((line / 8 ^ term) & 7) * 16 + line % 8 * 2;
}

/* The lines of an operand's tile, as a thread of a warpgroup loads them: rows of a, or columns
 * of b (OF_B). A complex product has b's columns twice: (re, -im) are terms of one, (im, re) of
 * the next. A thread has two runs of eight reals, each across the direction in which
 * neighbouring threads load; or, if loads are `wide`, four times four neighbours. */
template <typename T, bool TERMS_FIRST, bool OF_B> struct batch_lines {
    enum { PARTS = sizeof(T) / 4, EACH = OF_B ? PARTS : 1 }; /* columns of a number */
    enum { PAIRED = PARTS == 2 && (OF_B || TERMS_FIRST) };   /* two of a run are a number's */
    enum { APART = 32 };                                     /* lines from run to run */
    enum { NEAR = TERMS_FIRST ? +BATCH_TERMS : +BATCH_SIDE, STEP = 128 * 4 / NEAR };
    const uint8_t *at;  /* what the thread loads first */
    int64_t line, term; /* strides, in bytes */
    int lines, left;    /* that exist from there on, in numbers; terms in reals */
    int runs;           /* that have a line that exists; of complex numbers all */
    bool wide;

    /* The line and term of a run, or of four neighbours. */
    GOP_DEVICE static int2 run(int e, int t)
    {
        return TERMS_FIRST ? make_int2(t % 32 + e * APART, t / 32 * 8)
                           : make_int2(t / 32 * 8 + e * APART, t % 32);
    }
    GOP_DEVICE static int2 four(int n, int t)
    {
        const int near = t * 4 % NEAR, far = t * 4 / NEAR + n * STEP;
        return TERMS_FIRST ? make_int2(far, near) : make_int2(near, far);
    }
    GOP_DEVICE batch_lines(const T *from, int64_t line_stride, int64_t term_stride, int exist,
                           int terms, bool is_wide, int t)
    {
        const int2 first = PARTS == 1 && is_wide ? four(0, t) : run(0, t);
        wide = is_wide, line = line_stride * (int)sizeof(T),
        term = term_stride * (int)sizeof(T);
        lines = exist - first.x / EACH, left = terms - first.y;
        runs = PARTS > 1 || exist > APART || (wide && !TERMS_FIRST) ? 2 : 1;
        at = (const uint8_t *)from + first.x / EACH * line + first.y / PARTS * term;
        if (PARTS == 2 && !PAIRED) at += first.y % 2 * 4;
    }
    /* What no run ever stores is 0. */
    GOP_DEVICE void clear(uint8_t *to, int t) const
    {
        if (PARTS > 1 || runs > 1) return;
        const int2 place = run(1, t);
#pragma unroll
        for (int n = 0; n < 3; n++)
            *reinterpret_cast<uint4 *>(to + n * BATCH_PIECE +
                                       batch_place<TERMS_FIRST>(place.x, place.y)) = {};
    }
    /* Goes on by so many stages. */
    GOP_DEVICE void next(int stages)
    {
        at += stages * (BATCH_TERMS / PARTS) * term, left -= stages * BATCH_TERMS;
    }
    template <bool WHOLE> GOP_DEVICE void load(float (&x)[2][8]) const
    {
        if (PARTS == 1 && wide) {
#pragma unroll
            for (int n = 0; n < 4; n++) {
                if (!WHOLE && n / 2 == runs) break;
                load_if<true, WHOLE>(x[n / 2] + n % 2 * 4,
                                     TERMS_FIRST ? n * STEP < lines && left > 0
                                                 : lines > 0 && n * STEP < left,
                                     at + n * STEP * (TERMS_FIRST ? line : term));
            }
            return;
        }
        const int odd = OF_B ? threadIdx.x & 1 : 0;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if (PARTS == 1 && !WHOLE && e == runs) break;
            const int apart = e * APART / EACH;
            const uint8_t *from = at + apart * line;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int step = PAIRED ? i / 2 : i;
                if (i > 0 && (!PAIRED || i % 2 == 0)) from += TERMS_FIRST ? term : line;
                load_if<false, WHOLE>(&x[e][i],
                                      TERMS_FIRST ? apart < lines && i < left
                                                  : apart + step < lines && left > 0,
                                      from + (PAIRED ? ((odd ^ i) & 1) * 4 : 0));
                if (PARTS == 2 && OF_B && (TERMS_FIRST ? i % 2 && !odd : i % 2 == 0 && odd))
                    x[e][i] = -x[e][i];
            }
        }
    }
    /* `least` is lowered to the least of those that are not 0, as twice its bits less 1. */
    GOP_DEVICE void split(uint8_t *to, const float (&x)[2][8], uint32_t &least, int t) const
    {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if (PARTS == 1 && e == runs) break;
            uint32_t piece[3][4];
#pragma unroll
            for (int i = 0; i < 8; i++) least = min(least, 2 * gop_float_to_bits(x[e][i]) - 1);
#pragma unroll
            for (int i = 0; i < 4; i++)
                split_two(x[e][2 * i], x[e][2 * i + 1], piece[0][i], piece[1][i], piece[2][i]);
            if (PARTS == 1 && wide) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int2 place = four(2 * e + h, t);
                    uint8_t *const here = to + batch_place<TERMS_FIRST>(place.x, place.y);
#pragma unroll
                    for (int n = 0; n < 3; n++)
                        *reinterpret_cast<uint2 *>(here + n * BATCH_PIECE) =
                            make_uint2(piece[n][2 * h], piece[n][2 * h + 1]);
                }
                continue;
            }
            const int2 place = run(e, t);
            uint8_t *const here = to + batch_place<TERMS_FIRST>(place.x, place.y);
#pragma unroll
            for (int n = 0; n < 3; n++)
                *reinterpret_cast<uint4 *>(here + n * BATCH_PIECE) =
                    make_uint4(piece[n][0], piece[n][1], piece[n][2], piece[n][3]);
        }
    }
};

/* ---- products ---- */

#if GOP_WGMMA

template <bool TERMS_FIRST> GOP_DEVICE uint64_t batch_desc(uint32_t at)
{
    return TERMS_FIRST ? make_smem_desc(at, 0, 512, 2) : make_smem_desc(at, 4096, 1024, 1);
}

/* Begins part = the six products of a stage, of HALVES times 16 terms, small ones first; of a
 * warp 16 rows. */
template <bool A_FIRST, bool B_FIRST, int HALVES>
GOP_DEVICE void batch_begin(float (&)[32], float (&part)[32], uint32_t at_a, uint32_t at_b)
{
    enum { A_HALF = A_FIRST ? 32 : 2048, B_HALF = B_FIRST ? 32 : 2048 };
    const uint64_t a = batch_desc<A_FIRST>(at_a), b = batch_desc<B_FIRST>(at_b);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < products_of(3); n++)
#pragma unroll
        for (int half = 0; half < HALVES; half++)
            wgmma_add<false, !A_FIRST, !B_FIRST>(
                part, a + (piece_of_a(3, n) * BATCH_PIECE + half * A_HALF) / 16,
                b + (piece_of_b(3, n) * BATCH_PIECE + half * B_HALF) / 16, n + half > 0);
    wgmma_commit();
}
GOP_DEVICE void batch_end(float (&sum)[32], const float (&part)[32])
{
    wgmma_wait();
#pragma unroll
    for (int e = 0; e < 32; e++) sum[e] += part[e];
}

#else

/* 16 terms of 16 lines: of a, or (OF_B) of two times eight columns. */
template <bool TERMS_FIRST, bool OF_B>
GOP_DEVICE void batch_fragment(uint32_t (&to)[4], uint32_t piece, int line, int term)
{
    const int lane = threadIdx.x % 32, matrix = lane / 8, row = lane % 8;
    line += (OF_B ? matrix / 2 : matrix % 2) * 8 + (TERMS_FIRST ? row : 0);
    term += (OF_B ? matrix % 2 : matrix / 2) * 8 + (TERMS_FIRST ? 0 : row);
    const uint32_t at = piece + batch_place<TERMS_FIRST>(line, term);
    if (TERMS_FIRST) ldmatrix(to, at);
    else ldmatrix_trans(to, at);
}

/* sum += them, by mma.sync and 16 terms at a time. */
template <bool A_FIRST, bool B_FIRST, int HALVES>
GOP_DEVICE void batch_begin(float (&sum)[32], float (&)[32], uint32_t at_a, uint32_t at_b)
{
#pragma unroll 1
    for (int l = 0; l < 16 * HALVES; l += 16) {
        uint32_t fa[3][4], fb[3][4];
#pragma unroll
        for (int n = 0; n < 3; n++)
            batch_fragment<A_FIRST, false>(fa[n], at_a + n * BATCH_PIECE,
                                           threadIdx.x / 32 % 4 * 16, l);
#pragma unroll
        for (int c = 0; c < 4; c++) {
#pragma unroll
            for (int n = 0; n < 3; n++)
                batch_fragment<B_FIRST, true>(fb[n], at_b + n * BATCH_PIECE, c * 16, l);
            float part[2][4] = {};
#pragma unroll
            for (int n = 0; n < products_of(3); n++)
#pragma unroll
                for (int of = 0; of < 2; of++) {
                    const uint32_t(&b)[4] = fb[piece_of_b(3, n)];
                    const uint32_t two[2] = {b[of * 2], b[of * 2 + 1]};
                    mma_sync(part[of], fa[piece_of_a(3, n)], two, bfloat16());
                }
#pragma unroll
            for (int e = 0; e < 8; e++) sum[c * 8 + e] += part[e / 4][e % 4];
        }
    }
}
GOP_DEVICE void batch_end(float (&)[32], const float (&)[32]) {}
#endif

template <typename T, bool A_FIRST, bool B_FIRST, int GROUPS>
__global__ void __launch_bounds__(128 * GROUPS, 4 / GROUPS)
    matmul_bf16x3_batch_kernel(const matmul_product<T> p, const bf16x3_batch_job job)
{
    enum { PARTS = sizeof(T) / 4 };
    extern __shared__ uint8_t memory[];
    uint8_t *const stages = memory + (-shared_address(memory) & (BATCH_ALIGNED - 1));
    const matmul_geometry &g = p.g;
    const bool shared = GROUPS > 1 && job.cluster > 1;
    const matmul_tile<T> tile = matmul_tile_of<BATCH_SIDE, BATCH_SIDE / PARTS, 0>(
        p, shared ? blockIdx.x / job.cluster : blockIdx.x);
    if (job.of_itself && batch_below(p, tile) + tile.rows <= 0) return; /* it is mirrored */

    const int group = GROUPS > 1 ? __shfl_sync(~0u, threadIdx.x / 128, 0) : 0;
    const int t = threadIdx.x % 128;
    const int64_t first = shared ? cluster_rank() * job.part : 0;
    const int64_t own_terms =
        shared && tile.terms - first > job.part ? job.part : tile.terms - first;
    const int terms = (int)own_terms * PARTS;
    batch_lines<T, A_FIRST, false> a(tile.a + first * g.a_col, g.a_row, g.a_col, tile.rows,
                                     terms, job.a_wide, t);
    batch_lines<T, B_FIRST, true> b(tile.b + first * g.b_row, g.b_col, g.b_row, tile.columns,
                                    terms, job.b_wide, t);
    const bool is_inner = tile.rows == BATCH_SIDE && tile.columns == BATCH_SIDE / PARTS;
    uint8_t *const own = stages + group * 2 * BATCH_STAGE;
    float x[2][8], y[2][8], sum[32] = {};
    uint32_t least = ~0u;
    const auto load = [&](int left) {
        if (left <= 0) return;
        if (is_inner && left >= BATCH_TERMS) a.template load<true>(x), b.template load<true>(y);
        else a.template load<false>(x), b.template load<false>(y);
        a.next(GROUPS), b.next(GROUPS);
    };

    /* Main loop: while a stage is multiplied, the next one is loaded. Warpgroups without a last
     * stage take that turn too: racecheck counts barriers, and expects the same of all. */
    int left = terms - group * BATCH_TERMS;
    a.next(group), b.next(group);
    load(left);
    for (int s = 0; s < 2; s++) {
        a.clear(own + s * BATCH_STAGE, t);
        b.clear(own + s * BATCH_STAGE + BATCH_OPERAND, t);
    }
    const int turns = (terms + GROUPS * BATCH_TERMS - 1) / (GROUPS * BATCH_TERMS);
    for (int turn = 0, s = 0; turn < turns; turn++, s ^= 1) {
        const bool is_there = GROUPS == 1 || left > 0;
        uint8_t *const stage = own + s * BATCH_STAGE;
        if (is_there) a.split(stage, x, least, t);
        if (is_there) b.split(stage + BATCH_OPERAND, y, least, t);
        fence_proxy_async();
        const bool is_long = left > BATCH_TERMS / 2;
        left -= GROUPS * BATCH_TERMS;
        load(left);
        if (GROUPS > 1) group_wait(group + 1);
        else __syncthreads();
        if (!is_there) continue;
        float part[32];
        const uint32_t at_a = shared_address(stage), at_b = at_a + BATCH_OPERAND;
        if (is_long) batch_begin<A_FIRST, B_FIRST, 2>(sum, part, at_a, at_b);
        else batch_begin<A_FIRST, B_FIRST, 1>(sum, part, at_a, at_b);
        batch_end(sum, part);
    }

    /* Epilogue: store the sums, or compute the tile anew. */
    const bool beyond = least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1;
    batch_finish<GROUPS>(p, tile, job, sum, beyond, (float *)stages);
}

template <typename T, int GROUPS, bool A_FIRST, bool B_FIRST> static gop_status
bf16x3_batch_enqueue(gop_ctx *ctx, const matmul_product<T> &p, const bf16x3_batch_job &job)
{
    enum { COLUMNS = BATCH_SIDE / (int)(sizeof(T) / 4) };
    const unsigned tiles = matmul_tile_count<BATCH_SIDE, COLUMNS>(p);
    return GOP_LAUNCH_FOLLOWED(
        ctx, p.part.split > 1, (matmul_bf16x3_batch_kernel<T, A_FIRST, B_FIRST, GROUPS>),
        gop_cuda_grid(tiles * job.cluster, job.cluster > 1 ? job.cluster : 0), 128 * GROUPS,
        batch_shared(GROUPS), p, job);
}

template <typename T>
static gop_status matmul_bf16x3_batch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef gop_status (*enqueue)(gop_ctx *, const matmul_product<T> &,
                                  const bf16x3_batch_job &);
    static const enqueue kernels[][2][2] = {
        MATMUL_BY_ORDER(bf16x3_batch_enqueue, T, 1),
        MATMUL_BY_ORDER(bf16x3_batch_enqueue, T, 2),
        MATMUL_BY_ORDER(bf16x3_batch_enqueue, T, BF16X3_BATCH_GROUPS)};
    const bf16x3_batch_cut &cut = *GOP_OWN(const bf16x3_batch_cut, task->plan);
    const enqueue multiply = kernels[cut.groups / 2][cut.first[0]][cut.first[1]];
    matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    if (cut.swapped) {
        const T *const a = p.a;
        p.g = matmul_swapped(p.g);
        p.a = p.b, p.b = a;
        p.part.rows = p.g.m;
    }
    const bf16x3_batch_job job = {cut.of_itself, cut.wide[0], cut.wide[1], cut.cluster,
                                  cut.part};
    return matmul_multiply_chunks(
        ctx, task, p, cut.split, cut.chunk,
        [&](const matmul_product<T> &of) { return multiply(ctx, of, job); });
}
#endif

static gop_status matmul_bf16x3_batch_plan(const gop_ctx *ctx, const gop_task *task,
                                           gop_plan *plan)
{
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'bf16x3_batch'", 8,
                         "whose tensor cores take bfloat16"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_sums(g, "bf16x3_batch"));
    GOP_TRY(matmul_has_shared(ctx, "bf16x3_batch", batch_shared(1)));
    const bool symmetric = of_itself(task->call);
    if (symmetric && task->call->in[0].where.backend == GOP_CPU)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'bf16x3_batch' takes an array and its own transpose on "
                        "the device alone, where it sees that they are one: their product is "
                        "symmetric");
    matmul_plan_steps(ctx, task, 1, plan, 32);
    bf16x3_batch_cut *const cut = GOP_OWN(bf16x3_batch_cut, plan);
    const tiling_of of = tiling_of_task(ctx, task);
    const int parts = (int)matmul_item(task) / 4;
    const matmul_tiling t = bf16x3_batch_tiling(of, parts);
    cut->of_itself = symmetric;
    cut->groups = batch_shared(t.groups) <= ctx->info.shared_per_block ? t.groups : 1;
    cut->split = t.split, cut->chunk = t.chunk;
    if (plan->steps > 1) cut->split = 1, cut->chunk = blocks_for(g.k, 64) * 64;
    cut->cluster = cut->groups > 1 && plan->steps == 1 ? t.cluster : 1;
    cut->part = blocks_for(blocks_for(cut->chunk, t.step), cut->cluster) * t.step;
    cut->swapped = t.lines < t.columns && cut->steps.panels == 1;
    const bool along[2] = {of.a_along, of.b_along}, wide[2] = {of.a_wide, of.b_wide};
    for (int e = 0; e < 2; e++) {
        const int from = e ^ cut->swapped;
        cut->wide[e] = parts == 1 && wide[from];
        cut->first[e] = along[from] == cut->wide[e];
    }
    plan->scratch =
        cut->split > 1 ? (size_t)(cut->split * g.batches * g.m * g.n * matmul_item(task)) : 0;
    plan->launch =
        GOP_NATIVE_LAUNCH(task->in[0].dtype == GOP_FLOAT32 ? matmul_bf16x3_batch<float>
                                                           : matmul_bf16x3_batch<complex64>);
    return GOP_OK;
}

extern const gop_row matmul_bf16x3_batch_row = {
    .name = "bf16x3_batch",
    .note = "operands of any layout in one launch: a block splits each number once, in shared "
            "memory, and nothing is packed before",
    .role = GOP_CONFORMING,
    .plan = matmul_bf16x3_batch_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32 | 1u << GOP_COMPLEX64),
};
