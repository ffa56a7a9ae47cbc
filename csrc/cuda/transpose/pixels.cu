/*
 * pixels.cu - transpose of images: three items that stay together.
 *
 * A pixel of three channels is not a word, but 4 pixels of bytes, or 2 of halves, are three
 * words. So a thread transposes a square of 4 by 4, or 2 by 2, pixels in registers, and from
 * there on everything moves in words.
 */
#include "cuda/transpose/tiling.h"

enum { CHANNELS = 3, PIXEL_THREADS = 256 };

/* A square has G by G pixels, in rows of WORDS words; a block's tile is X by Y pixels. Every
 * thread has 24 words. */
template <typename T> struct pixel_tile {
    enum {
        G = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1,
        WORDS = CHANNELS * (int)sizeof(T) * G / 4,
        X = sizeof(T) < 4 ? 64 : 32,
        Y = sizeof(T) == 1   ? 128
            : sizeof(T) == 8 ? 32
                             : 64,
        LANES_X = 32 / G, /* squares of a warp: those side by side, G rows of them */
        WARPS_X = X / G / LANES_X,
        UNITS = X * Y / G / G / PIXEL_THREADS, /* squares of a thread */
        ROW = Y / G * WORDS,                   /* words of a row of the output */
        PITCH = ROW + 1,
        SIDE = X > Y ? X : Y,
    };
    static_assert(ROW % 32 == 0, "a warp writes whole rows");
};

/* Rows become columns: word[k] is row k of a square. */
GOP_DEVICE void turn_pixels(uint32_t (&)[1][3]) {}
GOP_DEVICE void turn_pixels(uint32_t (&)[1][6]) {}
GOP_DEVICE void turn_pixels(uint32_t (&r)[2][3])
{
    const uint32_t upper[3] = {__byte_perm(r[0][1], r[0][2], 0x5432),
                               __byte_perm(r[0][2], r[1][1], 0x7632), r[1][2]};
    r[0][1] = __byte_perm(r[0][1], r[1][0], 0x5410);
    r[0][2] = __byte_perm(r[1][0], r[1][1], 0x5432);
    for (int w = 0; w < 3; w++) r[1][w] = upper[w];
}
GOP_DEVICE void turn_pixels(uint32_t (&r)[4][3])
{
    uint32_t pixel[4][4]; /* of row and column: three bytes, and one too many */
#pragma unroll
    for (int k = 0; k < 4; k++) {
        pixel[k][0] = r[k][0];
        pixel[k][1] = __byte_perm(r[k][0], r[k][1], 0x6543);
        pixel[k][2] = __byte_perm(r[k][1], r[k][2], 0x5432);
        pixel[k][3] = r[k][2] >> 8;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        r[i][0] = __byte_perm(pixel[0][i], pixel[1][i], 0x4210);
        r[i][1] = __byte_perm(pixel[1][i], pixel[2][i], 0x5421);
        r[i][2] = __byte_perm(pixel[2][i], pixel[3][i], 0x6542);
    }
}

/* A row of the tile in shared memory is one x. Threads that write together are G rows of the
 * tile apart, or WORDS words in a row: 32 different banks, since rows are of an odd length. */
template <typename T, bool JOINED> __global__ void __launch_bounds__(PIXEL_THREADS, 4)
    transpose_pixels_kernel(uint32_t *out, const uint32_t *in,
                            const __grid_constant__ tiling_for<JOINED> p)
{
    typedef pixel_tile<T> V;
    __shared__ uint32_t tile[V::X * V::PITCH];
    __shared__ tile_rows<V::SIDE, JOINED> rows;
    const tile_at t = place_tile(p, V::X, V::Y);
    const int nx = (int)min_of(p.x.n - t.x, V::X), ny = (int)min_of(p.y.n - t.y, V::Y);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    place_rows(rows, p, t);

    /* load: all loads of the thread are issued before any result is used */
    grid_dependency_sync();
    uint32_t square[V::UNITS][V::G][V::WORDS];
#pragma unroll
    for (int unit = 0; unit < V::UNITS; unit++) {
        const int at = warp + unit * (PIXEL_THREADS / 32);
        const int x = (at % V::WARPS_X * V::LANES_X + lane % V::LANES_X) * V::G;
        const int y = (at / V::WARPS_X * V::G + lane / V::LANES_X) * V::G;
#pragma unroll
        for (int k = 0; k < V::G; k++) {
            const int64_t pixel = t.from + t.x + x + row_y(rows, p, t, y + k);
            const uint32_t *const from = in + pixel / V::G * V::WORDS;
#pragma unroll
            for (int w = 0; w < V::WORDS; w++)
                square[unit][k][w] = x < nx && y < ny ? from[w] : 0;
        }
    }

    /* turn */
#pragma unroll
    for (int unit = 0; unit < V::UNITS; unit++) {
        const int at = warp + unit * (PIXEL_THREADS / 32);
        const int x = (at % V::WARPS_X * V::LANES_X + lane % V::LANES_X) * V::G;
        const int along = at / V::WARPS_X * V::G + lane / V::LANES_X;
        turn_pixels(square[unit]);
#pragma unroll
        for (int i = 0; i < V::G; i++)
#pragma unroll
            for (int w = 0; w < V::WORDS; w++)
                tile[(x + i) * V::PITCH + along * V::WORDS + w] = square[unit][i][w];
    }
    __syncthreads();

    /* store */
    const int words = ny / V::G * V::WORDS;
#pragma unroll 4
    for (int x = warp; x < nx; x += PIXEL_THREADS / 32) {
        uint32_t *const to = out + (t.to + t.y + row_x(rows, p, t, x)) / V::G * V::WORDS;
#pragma unroll
        for (int w = lane; w < V::ROW; w += 32)
            if (w < words) to[w] = tile[x * V::PITCH + w];
    }
}

template <typename T, bool JOINED>
static gop_status transpose_pixels(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tiling_plan &t = *GOP_OWN(const tiling_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (transpose_pixels_kernel<T, JOINED>),
                            dim3((unsigned)t.all.tiles), PIXEL_THREADS, 0,
                            (uint32_t *)task->out[0].data, (const uint32_t *)task->in[0].data,
                            tiling_of<JOINED>(t));
}

/* g counts pixels. All squares must start and end with words. */
template <typename T>
static gop_status plan_pixels(const gop_task *task, const gop_permutation &g, gop_plan *plan)
{
    typedef pixel_tile<T> V;
    tiling_plan &t = *GOP_OWN(tiling_plan, plan);
    GOP_TRY(transpose_tiling("pixels", g, V::X, V::Y, 0, &t));
    const int64_t places =
        t.all.x.n | t.all.y.n | transpose_offsets_in(t.all) | transpose_offsets_out(t.all);
    if (places % V::G != 0 || transpose_alignment(task, 4, 1) % 4 != 0)
        return gop_fail(GOP_REFUSED,
                        "transpose: the pixels kernel takes arrays and rows that start "
                        "and end at multiples of 4 bytes; those of this call do not");
    plan->launch = t.is_brief ? transpose_pixels<T, false> : transpose_pixels<T, true>;
    return GOP_OK;
}

static gop_status transpose_pixels_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g), last = g.rank - 1;
    bool pixels_stay = item <= 8 && last > 0 && g.extent[last] == CHANNELS && g.in[last] == 1 &&
                       g.out[last] == 1;
    for (int k = 0; k < last; k++)
        if (g.in[k] % CHANNELS != 0 || g.out[k] % CHANNELS != 0) pixels_stay = false;
    if (!pixels_stay)
        return gop_fail(GOP_REFUSED,
                        "transpose: the pixels kernel takes permutations that leave "
                        "a fastest axis of 3 items of 1 to 8 bytes in its place; that of this "
                        "call does not");
    for (int k = 0; k < last; k++) g.in[k] /= CHANNELS, g.out[k] /= CHANNELS;
    g.size /= CHANNELS;
    g.rank = last;
    return TRANSPOSE_BY_SMALL_ITEM(item, plan_pixels)(task, g, plan);
}

extern const gop_row transpose_pixels_row = {
    .name = "pixels",
    .note = "three items that stay together: squares of pixels, as large as words ask "
            "for, are turned in registers",
    .role = GOP_CONFORMING,
    .plan = transpose_pixels_plan,
    .dtypes = TRANSPOSE_UP_TO_8,
};
