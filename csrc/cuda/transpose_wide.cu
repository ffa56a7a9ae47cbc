/*
 * transpose_wide.cu - the transpose row whose every access is of 16 bytes.
 *
 * A thread reads 16 bytes of as many rows as items make a word (4, 2 or 1), transposes them in
 * registers into words along y, and so shared memory never moves less than a word. The other
 * side is read and written 16 bytes a thread again.
 */
#include "cuda/transpose.h"

enum { THREADS = 256 };

template <typename T, int SIDE> struct wide_tile {
    enum {
        ITEMS = 16 / (int)sizeof(T),                      /* of one access */
        ROWS = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1,    /* that make a cell */
        GRANULES = SIDE / ITEMS,                          /* 16-byte pieces of a row */
        CELLS = 16 / (int)sizeof(typename cell<T>::type), /* of a granule */
        UNITS = SIDE * GRANULES / ROWS / THREADS, /* a thread reads: ROWS accesses each */
        /* Cells along y that a warp reads at once: as many as a granule has, so that
         * a write of 128 bytes fills all banks. */
        ACROSS = CELLS,
        ALONG = 32 / ACROSS,
        PARTS = GRANULES / ALONG, /* of a row */
    };
};

/* ROWS rows of 16 bytes become ITEMS cells along y. */
template <typename T> struct turned {
    typename cell<T>::type at[16 / sizeof(T)];
};

template <typename T> GOP_DEVICE turned<T> turn(const uint4 *row)
{
    turned<T> t;
    __builtin_memcpy(&t, row, sizeof t);
    return t;
}

template <> GOP_DEVICE turned<uint16_t> turn<uint16_t>(const uint4 *row)
{
    uint32_t r[2][4];
    __builtin_memcpy(r, row, sizeof r);
    turned<uint16_t> t;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        t.at[2 * i] = (r[0][i] & 0xffffu) | r[1][i] << 16;
        t.at[2 * i + 1] = r[0][i] >> 16 | (r[1][i] & 0xffff0000u);
    }
    return t;
}

/* Four by four bytes: pairs of rows two apart change halves, then neighbours change bytes. */
template <> GOP_DEVICE turned<uint8_t> turn<uint8_t>(const uint4 *row)
{
    uint32_t r[4][4];
    __builtin_memcpy(r, row, sizeof r);
    turned<uint8_t> t;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t a = (r[0][i] & 0xffffu) | r[2][i] << 16;
        const uint32_t b = (r[1][i] & 0xffffu) | r[3][i] << 16;
        const uint32_t c = r[0][i] >> 16 | (r[2][i] & 0xffff0000u);
        const uint32_t d = r[1][i] >> 16 | (r[3][i] & 0xffff0000u);
        t.at[4 * i] = (a & 0x00ff00ffu) | (b & 0x00ff00ffu) << 8;
        t.at[4 * i + 1] = (a >> 8 & 0x00ff00ffu) | (b & 0xff00ff00u);
        t.at[4 * i + 2] = (c & 0x00ff00ffu) | (d & 0x00ff00ffu) << 8;
        t.at[4 * i + 3] = (c >> 8 & 0x00ff00ffu) | (d & 0xff00ff00u);
    }
    return t;
}

/* The tile lies in shared memory row by row of x. Cells of one warp's write differ in x by
 * whole granules, whose rows begin in the same bank; so the granule index is XORed with that of
 * x modulo 8: 8 granules times ACROSS cells in each then cover the 32 banks once. A row is read
 * back by whole granules, 8 of them are 128 bytes in any order. */
template <typename T, int SIDE, bool JOINED> __global__ void __launch_bounds__(THREADS)
    transpose_wide_kernel(T *out, const T *in, tiling p)
{
    typedef wide_tile<T, SIDE> W;
    typedef typename cell<T>::type C;
    __shared__ uint4 tile[SIDE * W::GRANULES];
    __shared__ tile_rows<SIDE, JOINED> rows;
    C *const cells = reinterpret_cast<C *>(tile);
    const tile_at t = place_tile(p, SIDE, SIDE);
    const int nx = (int)min_of(p.x.n - t.x, SIDE), ny = (int)min_of(p.y.n - t.y, SIDE);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int along = lane % 8 + lane / (8 * W::ACROSS) * 8, across = lane / 8 % W::ACROSS;
    place_rows(rows, p, t);

    /* load: all that the thread will move is asked for before any of it is used */
    uint4 row[W::UNITS][W::ROWS];
    in += t.from + t.x;
#pragma unroll
    for (int unit = 0; unit < W::UNITS; unit++) {
        const int at = warp + unit * (THREADS / 32);
        const int x = (at % W::PARTS * W::ALONG + along) * W::ITEMS;
        const int y = (at / W::PARTS * W::ACROSS + across) * W::ROWS;
#pragma unroll
        for (int j = 0; j < W::ROWS; j++) {
            row[unit][j] = make_uint4(0, 0, 0, 0);
            if (x < nx && y + j < ny)
                row[unit][j] = __ldcs((const uint4 *)(in + row_y(rows, p, t, y + j) + x));
        }
    }

    /* turn */
#pragma unroll
    for (int unit = 0; unit < W::UNITS; unit++) {
        const int at = warp + unit * (THREADS / 32);
        const int granule = at % W::PARTS * W::ALONG + along;
        const int y = at / W::PARTS * W::ACROSS + across; /* in cells */
        const int place = ((y / W::CELLS) ^ (granule % 8)) * W::CELLS + y % W::CELLS;
        const turned<T> v = turn<T>(row[unit]);
#pragma unroll
        for (int i = 0; i < W::ITEMS; i++)
            cells[(granule * W::ITEMS + i) * (W::GRANULES * W::CELLS) + place] = v.at[i];
    }
    __syncthreads();

    /* store */
    out += t.to + t.y;
#pragma unroll
    for (int i = 0; i < SIDE * W::GRANULES / THREADS; i++) {
        const int piece = threadIdx.x + i * THREADS;
        const int x = piece / W::GRANULES, granule = piece % W::GRANULES;
        if (x >= nx || granule * W::ITEMS >= ny) continue;
        *(uint4 *)(out + row_x(rows, p, t, x) + granule * W::ITEMS) =
            tile[x * W::GRANULES + (granule ^ (x / W::ITEMS % 8))];
    }
}

/* Rows of 256 or 512 bytes on both sides, in 16 or 32 KiB; of bytes, 128. */
static int whole_side(int item)
{
    return item <= 2 ? 128 : item <= 8 ? 64 : 32;
}

static gop_status plan_wide(const gop_task *task, int side, int64_t rows, tiling *p, int *item)
{
    gop_permutation g = task->geometry.permutation;
    *item = transpose_widen(task, &g);
    if (side == 0) side = whole_side(*item);
    return transpose_tiling("wide", g, side, side, rows, p);
}

template <typename T, int SIDE>
static gop_status wide(gop_ctx *ctx, const gop_task *task, const tiling &p)
{
    if (p.tiles == 0) return GOP_OK;
    const dim3 grid((unsigned)p.tiles);
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    if (p.x.rank == 1 && p.y.rank == 1)
        return GOP_LAUNCH(ctx, (transpose_wide_kernel<T, SIDE, false>), grid, THREADS, 0, out,
                          in, p);
    return GOP_LAUNCH(ctx, (transpose_wide_kernel<T, SIDE, true>), grid, THREADS, 0, out, in,
                      p);
}

gop_status transpose_wide(gop_ctx *ctx, const gop_task *task, int64_t)
{
    tiling p;
    int item, side = (int)task->tune[1];
    const int64_t rows = task->tune[0];
    GOP_TRY(plan_wide(task, side, rows, &p, &item));
    if (side == 0) {
        side = whole_side(item);
        /* Four tiles a processor and less: smaller ones keep more of them busy. */
        const bool are_few = p.tiles > 0 && p.tiles < 4 * (int64_t)ctx->info.processors;
        if (are_few && item != 1 && item != 16)
            GOP_TRY(plan_wide(task, side /= 2, rows, &p, &item));
    }
    switch (1000 * item + side) {
    case 1128:
        return wide<uint8_t, 128>(ctx, task, p);
    case 2064:
        return wide<uint16_t, 64>(ctx, task, p);
    case 2128:
        return wide<uint16_t, 128>(ctx, task, p);
    case 4032:
        return wide<uint32_t, 32>(ctx, task, p);
    case 4064:
        return wide<uint32_t, 64>(ctx, task, p);
    case 8032:
        return wide<uint64_t, 32>(ctx, task, p);
    case 8064:
        return wide<uint64_t, 64>(ctx, task, p);
    case 16032:
        return wide<uint4, 32>(ctx, task, p);
    default:
        return gop_fail(GOP_REFUSED,
                        "transpose: the wide kernel has tiles of %d or half of it on a side "
                        "for items of %d bytes, not of %d",
                        whole_side(item), item, side);
    }
}

gop_status transpose_takes_wide(const gop_ctx *, const gop_task *task)
{
    tiling p;
    int item;
    GOP_TRY(plan_wide(task, 0, 1, &p, &item));
    if (p.tiles == 0) return GOP_OK;
    /* The lowest bit set in any place: what all rows start and end at a multiple of. */
    int64_t items = p.x.n | p.y.n;
    for (int k = 0; k < p.x.rank; k++) items |= p.x.stride[k];
    for (int k = 0; k < p.y.rank; k++) items |= p.y.stride[k];
    for (int k = 0; k < p.batch_rank; k++) items |= p.in[k] | p.out[k];
    const int64_t bits =
        items * item | (int64_t)((uintptr_t)task->out[0].data | (uintptr_t)task->in[0].data);
    if (bits % 16 == 0) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "transpose: the wide kernel takes rows that start and end at "
                    "multiples of 16 bytes, got a multiple of %d",
                    (int)(bits & -bits));
}
