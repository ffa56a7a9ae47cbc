/*
 * lines.cu - transpose of arrays whose fastest axis stays where it is.
 *
 * Lines stay lines: 16 bytes of one side are 16 bytes of the other, and mostly so are the 512
 * bytes that a warp moves. Nothing changes places within a line, so this is a copy of lines,
 * without shared memory.
 *
 * Unaligned lines are read as two aligned pieces of 16 bytes and shifted into place. The output
 * has no gaps then: its pieces are whole, and may hold the end of a line and the beginning of
 * the next.
 */
#include "cuda/transpose/split.h"

enum {
    LINE_AXES = 8,
    LINE_THREADS = 256,
    LEAST_LINE = 3,    /* pieces of 16 bytes; shorter lines are faster in boxes, */
    LEAST_ACROSS = 32, /* bytes of unaligned lines, for items of 1 and 2 bytes */
    LINES_OF_BLOCK = 16 * LINE_THREADS / LEAST_ACROSS + 2,
};

/* Where 16 bytes lie on both sides; the fastest axis first. */
struct line_axes {
    uint32_t size;
    int rank;
    fast_divisor extent[LINE_AXES];
    int64_t out[LINE_AXES], in[LINE_AXES];
};

__global__ void __launch_bounds__(LINE_THREADS)
    transpose_lines_kernel(uint4 *out, const uint4 *in, const __grid_constant__ line_axes p)
{
    uint32_t left = blockIdx.x * LINE_THREADS + threadIdx.x;
    if (left >= p.size) return;
    int64_t to = 0, from = 0;
    for (int axis = 0; axis < p.rank - 1; axis++) {
        const int64_t at = take_index(left, p.extent[axis]);
        to += at * p.out[axis];
        from += at * p.in[axis];
    }
    grid_dependency_sync();
    out[to + left * p.out[p.rank - 1]] = in[from + left * p.in[p.rank - 1]];
}

static gop_status transpose_lines(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const line_axes &p = *GOP_OWN(const line_axes, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, transpose_lines_kernel,
                            dim3((unsigned)blocks_for(p.size, LINE_THREADS)), LINE_THREADS, 0,
                            (uint4 *)task->out[0].data, (const uint4 *)task->in[0].data, p);
}

/* ---- unaligned lines ---- */

/* An output without gaps: its items, those of a piece and of a line; and where lines lie in the
 * input: bytes from one to the next along each axis but the fastest. */
struct across_axes {
    uint32_t size;
    int item, per_piece, outermost;
    fast_divisor line, extent[LINE_AXES];
    int64_t in[LINE_AXES];
};

GOP_DEVICE int64_t place_line(const across_axes &p, uint32_t line)
{
    int64_t at = 0;
#pragma unroll 1
    for (int axis = 0; axis < p.outermost; axis++)
        at += take_index(line, p.extent[axis]) * p.in[axis];
    return at + line * p.in[p.outermost];
}

/* Loads bytes `begin` to `end` of 16. INNER: they are so far inside the input that all of their
 * pieces are. */
template <bool INNER>
GOP_DEVICE split load_part(const uint8_t *from, int begin, int end, pieces whole)
{
    if (!INNER) return load_split(from, begin, end, whole);
    split s = {{}, {}, (int)((uintptr_t)from % 16)};
    const uint4 *const piece = reinterpret_cast<const uint4 *>(from - s.shift);
    if (s.shift + begin < 16) s.low = piece[0];
    if (s.shift + end > 16) s.high = piece[1];
    return s;
}

/* The first bytes of a, then those of b. */
GOP_DEVICE uint4 joined(uint4 a, uint4 b, int bytes)
{
    const uint32_t of_a[4] = {a.x, a.y, a.z, a.w}, of_b[4] = {b.x, b.y, b.z, b.w};
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int bits = 8 * (bytes - 4 * i);
        const uint32_t mask = bits <= 0 ? ~0u : bits >= 32 ? 0u : ~0u << bits;
        w[i] = (of_a[i] & ~mask) | (of_b[i] & mask);
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* The piece that starts `x` bytes into a line: the bytes that are there, of which `left` are
 * that line's and the others the next one's. */
template <bool INNER> GOP_DEVICE uint4 piece_of_lines(const uint8_t *in, const int64_t *line_at,
                                                      int64_t x, int left, int there,
                                                      pieces whole)
{
    const split here = load_part<INNER>(in + (line_at[0] + x), 0, left, whole);
    if (left == there) return window(here);
    const split next = load_part<INNER>(in + (line_at[1] - left), left, there, whole);
    return joined(window(here), window(next), left);
}

/* A block finds each of its lines once. */
__global__ void __launch_bounds__(LINE_THREADS)
    transpose_lines_across_kernel(uint8_t *out, const uint8_t *in,
                                  const __grid_constant__ across_axes p, pieces whole)
{
    __shared__ int64_t line_at[LINES_OF_BLOCK];
    const uint32_t first = blockIdx.x * LINE_THREADS * p.per_piece;
    const uint32_t end = (uint32_t)min_of(first + LINE_THREADS * p.per_piece, p.size);
    const uint32_t line = quotient(first, p.line), last = quotient(end - 1, p.line);
    bool is_inner = true;
    if (threadIdx.x <= last - line) {
        const int64_t at = place_line(p, line + threadIdx.x);
        const uint4 *const begin = reinterpret_cast<const uint4 *>(in + at) - 2;
        line_at[threadIdx.x] = at;
        is_inner =
            begin >= whole.first && begin + (p.line.d * (uint64_t)p.item / 16 + 5) <= whole.end;
    }
    const bool has_edge = __syncthreads_or(!is_inner);

    const uint32_t i = first + threadIdx.x * p.per_piece;
    if (i >= end) return;
    const uint32_t own = quotient(i, p.line), x = i - own * p.line.d;
    const int there = (int)min_of(end - i, p.per_piece) * p.item;
    const int of_line = (int)min_of(p.line.d - x, p.per_piece) * p.item;
    const int left = of_line < there ? of_line : there;
    const int64_t *const at = line_at + (own - line);
    const int64_t bytes = (int64_t)x * p.item;
    grid_dependency_sync();
    const uint4 v = has_edge ? piece_of_lines<false>(in, at, bytes, left, there, whole)
                             : piece_of_lines<true>(in, at, bytes, left, there, whole);
    uint8_t *const to = out + i * (int64_t)p.item;
    if (there == 16) {
        *reinterpret_cast<uint4 *>(to) = v;
        return;
    }
    uint8_t items[16];
    __builtin_memcpy(items, &v, 16);
#pragma unroll
    for (int k = 0; k < 16; k++)
        if (k < there) to[k] = items[k];
}

static gop_status transpose_lines_across(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const across_axes &p = *GOP_OWN(const across_axes, task->plan);
    const int64_t threads = blocks_for(p.size, p.per_piece);
    return GOP_LAUNCH_FIRST(ctx, task, 0, transpose_lines_across_kernel,
                            dim3((unsigned)blocks_for(threads, LINE_THREADS)), LINE_THREADS, 0,
                            (uint8_t *)task->out[0].data, (const uint8_t *)task->in[0].data, p,
                            pieces_of(task));
}

/* ---- plans ---- */

static bool has_gaps(const gop_permutation &g)
{
    int64_t run = 1;
    for (int axis = g.rank - 1; axis >= 0; run *= g.extent[axis--])
        if (g.out[axis] != run) return true;
    return false;
}

/* The length from which on unaligned lines are faster here than in boxes. */
static int64_t least_across(int item)
{
    return item <= 2 ? LEAST_ACROSS : item == 4 ? 64 : 384;
}

static gop_status transpose_lines_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g), last = g.rank - 1;
    const bool is_aligned = item == 16;
    const bool are_lines =
        g.rank <= LINE_AXES && fits_32_bits(g.size) && g.in[last] == 1 && g.out[last] == 1;
    const bool are_across = are_lines && !has_gaps(g) &&
                            (uintptr_t)task->out[0].data % 16 == 0 &&
                            g.extent[last] * item >= least_across(item);
    if (is_aligned ? !are_lines || g.extent[last] < LEAST_LINE : !are_across)
        return gop_fail(
            GOP_REFUSED,
            "transpose: the lines kernel takes at most %d axes of which the "
            "fastest stays, in lines of at least %d bytes that start and end at "
            "multiples of 16, or unaligned ones of at least %lld bytes in an output "
            "without gaps; this call has %d axes and lines of %lld bytes",
            LINE_AXES, 16 * LEAST_LINE, (long long)least_across(item), g.rank,
            (long long)g.extent[last] * item);
    if (is_aligned) {
        line_axes &p = *GOP_OWN(line_axes, plan);
        plan->launch = transpose_lines;
        p = {(uint32_t)g.size, g.rank, {}, {}, {}};
        for (int k = 0; k < g.rank; k++) {
            const int axis = last - k;
            p.extent[k] = make_fast_divisor(g.extent[axis]);
            p.out[k] = g.out[axis];
            p.in[k] = g.in[axis];
        }
        return GOP_OK;
    }
    across_axes &p = *GOP_OWN(across_axes, plan);
    plan->launch = transpose_lines_across;
    p = {};
    p.size = (uint32_t)g.size;
    p.item = item;
    p.per_piece = 16 / item;
    p.line = make_fast_divisor(g.extent[last]);
    p.outermost = last > 0 ? last - 1 : 0;
    for (int k = 0; k < last; k++) {
        p.extent[k] = make_fast_divisor(g.extent[last - 1 - k]);
        p.in[k] = g.in[last - 1 - k] * item;
    }
    return GOP_OK;
}

extern const gop_row transpose_lines_row = {
    .name = "lines",
    .note = "the fastest axis stays: lines are copied 16 bytes a thread, past shared memory",
    .role = GOP_CONFORMING,
    .plan = transpose_lines_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
