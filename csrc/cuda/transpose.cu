/*
 * transpose.cu - the CUDA ladder of transpose: a permuted copy, by the size of an item.
 *
 * Floor: every item read once and written once. What makes it hard: a warp's access is cheap
 * when its 32 threads touch neighbours, and neighbours in the input are far apart in the
 * output. Of all axes only two matter: x, the input's fastest, and y, the output's fastest; the
 * others are a batch of such planes.
 */
#include "cuda/transpose.h"

/* ---- reads, naive ----
 * One element a thread. Neighbouring threads follow the axes in the order they are given: in
 * the input's order reads coalesce and every write is a memory transaction of its own; in the
 * output's order it is the other way round, which costs less, since reads are cached. */

template <typename T, typename I>
__global__ void transpose_naive_kernel(T *out, const T *in, gop_permutation p)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (I)p.size) return;
    int64_t to, from;
    place(p, i, &to, &from);
    out[to] = in[from];
}

template <typename T>
static gop_status in_given_order(gop_ctx *ctx, const gop_task *task, const gop_permutation &p)
{
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    if (p.size == 0) return GOP_OK;
    const dim3 grid((unsigned)blocks_for(p.size, 256));
    if (fits_32_bits(p.size))
        return GOP_LAUNCH(ctx, (transpose_naive_kernel<T, uint32_t>), grid, 256, 0, out, in, p);
    return GOP_LAUNCH(ctx, (transpose_naive_kernel<T, uint64_t>), grid, 256, 0, out, in, p);
}

template <typename T>
static gop_status transpose_reads(gop_ctx *ctx, const gop_task *task, int64_t)
{
    gop_permutation p = task->geometry.permutation;
    int64_t *const lists[] = {p.extent, p.in, p.out};
    for (int i = 1; i < p.rank; i++)
        for (int k = i; k > 0 && magnitude(p.in[k]) > magnitude(p.in[k - 1]); k--)
            for (int64_t *values : lists) {
                const int64_t value = values[k];
                values[k] = values[k - 1];
                values[k - 1] = value;
            }
    return in_given_order<T>(ctx, task, p);
}

template <typename T>
static gop_status transpose_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return in_given_order<T>(ctx, task, task->geometry.permutation);
}

/* ---- the table ---- */

/* In the order of the dtypes: bytes are all that counts. */
#define BY_SIZE(f)                                                                             \
    {                                                                                          \
        f<uint8_t>, f<uint8_t>, f<uint16_t>, f<uint32_t>, f<uint64_t>, f<uint8_t>,             \
            f<uint16_t>, f<uint32_t>, f<uint64_t>, f<uint16_t>, f<uint16_t>, f<uint32_t>,      \
            f<uint64_t>, f<uint64_t>, f<complex128>                                            \
    }
/* Items of 1 and 2 bytes. */
#define SMALL(f)                                                                               \
    {                                                                                          \
        f, f, f, nullptr, nullptr, f, f, nullptr, nullptr, f, f                                \
    }
/* Items of 4 bytes and more. */
#define LARGE(f)                                                                               \
    {                                                                                          \
        nullptr, nullptr, nullptr, f, f, nullptr, nullptr, f, f, nullptr, nullptr, f, f, f, f  \
    }
/* Items of 8 bytes and less. */
#define UP_TO_8(f)                                                                             \
    {                                                                                          \
        f, f, f, f, f, f, f, f, f, f, f, f, f, f, nullptr                                      \
    }
#define EVERY(f)                                                                               \
    {                                                                                          \
        f, f, f, f, f, f, f, f, f, f, f, f, f, f, f                                            \
    }

/* Everything but the dtypes' launchers and the tunables; `lecture` is a tag or NULL. */
#define ROW(name, role, lecture, note, launch, accepts, ...)                                   \
    {                                                                                          \
        name, note, role, nullptr, lecture, launch, accepts, nullptr, nullptr,                 \
        {                                                                                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define LECTURE "matrix transpose"

/* Items along a tile, and rows of a block. */
#define SIDES                                                                                  \
    {                                                                                          \
        "side", 3,                                                                             \
        {                                                                                      \
            32, 16, 64                                                                         \
        }                                                                                      \
    }
#define ROWS                                                                                   \
    {                                                                                          \
        "rows", 4,                                                                             \
        {                                                                                      \
            8, 2, 4, 16                                                                        \
        }                                                                                      \
    }
/* Items along a tile; 0: by their size. */
#define VECTOR_SIDES                                                                           \
    {                                                                                          \
        "side", 5,                                                                             \
        {                                                                                      \
            0, 32, 64, 128, 256                                                                \
        }                                                                                      \
    }

/* What is written in one GPU's own instructions is not there on sim; its row refuses. */
#ifdef __CUDACC__
#define BULK LARGE(transpose_bulk)
#else
#define BULK                                                                                   \
    {                                                                                          \
    }
gop_status transpose_takes_bulk(const gop_ctx *, const gop_task *)
{
    return gop_fail(GOP_REFUSED, "transpose: the bulk kernel takes a GPU of compute capability "
                                 "9.0 or later, whose copy engine moves rows, got sim");
}
#endif

static const gop_row rows[] = {
    ROW("strided", GOP_YARDSTICK, LECTURE,
        "copy an element a thread, neighbours far apart on both sides: every access is a "
        "memory transaction",
        EVERY(transpose_strided), transpose_is_dense),
    ROW("copy", GOP_YARDSTICK, LECTURE,
        "copy an element a thread: both sides coalesce, so this is what a transpose could "
        "reach",
        EVERY(transpose_copy), transpose_is_dense),
    ROW("staged", GOP_YARDSTICK, LECTURE,
        "copy through shared memory by blocks: the price of the detour and its barrier",
        EVERY(transpose_staged), transpose_is_dense_planes),
    ROW("streamed", GOP_YARDSTICK, LECTURE,
        "copy 16 bytes a thread, four accesses at once: more bytes in flight hide the "
        "latency",
        EVERY(transpose_streamed), transpose_is_dense_vectors),
    ROW("reads", GOP_CONFORMING, LECTURE,
        "one element a thread in the input's order: reads coalesce, every write is a "
        "transaction",
        BY_SIZE(transpose_reads), nullptr),
    ROW("naive", GOP_CONFORMING, LECTURE,
        "one element a thread in the output's order: writes coalesce, reads at least are "
        "cached",
        BY_SIZE(transpose_naive), nullptr),
    ROW("tiled", GOP_CONFORMING, LECTURE,
        "a tile through shared memory: both sides coalesce, but a column is one bank",
        EVERY(transpose_tiled), transpose_takes_planes, SIDES, ROWS),
    ROW("padded", GOP_CONFORMING, LECTURE,
        "one word more per row of the tile: a column lies in 32 different banks",
        EVERY(transpose_padded), transpose_takes_planes, SIDES, ROWS),
    ROW("diagonal", GOP_CONFORMING, LECTURE,
        "blocks numbered along diagonals: no queue at one memory partition, where addresses"
        " are not hashed",
        EVERY(transpose_diagonal), transpose_takes_planes),
    ROW("swizzled", GOP_CONFORMING, nullptr,
        "column i of row j lies at i XOR j: 32 different banks without a word of padding",
        EVERY(transpose_swizzled), transpose_takes_planes),
    ROW("packed", GOP_CONFORMING, nullptr,
        "words of 2 or 4 small items, turned in registers: banks and accesses are words",
        SMALL(transpose_packed), transpose_takes_words),
    ROW("boxed", GOP_CONFORMING, nullptr,
        "a box of as many axes as make long runs on both sides: thin arrays and short axes "
        "too",
        EVERY(transpose_boxed), transpose_takes_boxed),
    ROW("bulk", GOP_CONFORMING, nullptr,
        "rows move to and from shared memory by a copy engine, without a register or a load"
        " of a thread",
        BULK, transpose_takes_bulk),
    ROW("sectored", GOP_CONFORMING, nullptr,
        "rows that start anywhere: each write starts at a sector, so that none is written "
        "in two parts",
        EVERY(transpose_sectored), transpose_takes_sectored),
    ROW("shifted", GOP_CONFORMING, nullptr,
        "the same of small items: 16 bytes at any address, shifted into place from two "
        "aligned pieces",
        SMALL(transpose_shifted), transpose_takes_shifted),
    ROW("few", GOP_CONFORMING, nullptr,
        "small arrays, naive with 16 bytes of the output a thread: all of it is asked for "
        "at once",
        EVERY(transpose_few), transpose_takes_few),
    ROW("lines", GOP_CONFORMING, nullptr,
        "the fastest axis stays: lines are copied 16 bytes a thread, past shared memory",
        EVERY(transpose_lines), transpose_takes_lines),
    ROW("pixels", GOP_CONFORMING, nullptr,
        "three items that stay together: squares of pixels, as large as words ask for, are "
        "turned in registers",
        UP_TO_8(transpose_pixels), transpose_takes_pixels),
    ROW("vectorized", GOP_CONFORMING, nullptr,
        "16 bytes an access in memory and in shared memory: a thread turns a square of "
        "items in registers",
        EVERY(transpose_vectorized), transpose_takes_vectors, VECTOR_SIDES),
    ROW("interleaved", GOP_CONFORMING, nullptr,
        "two to sixteen long rows: a thread turns 16 bytes of each in registers",
        EVERY(transpose_interleaved), transpose_takes_interleaved),
};

extern "C" {
extern const gop_ladder gop_cuda_transpose;
const gop_ladder gop_cuda_transpose = {sizeof rows / sizeof *rows, rows};
}
