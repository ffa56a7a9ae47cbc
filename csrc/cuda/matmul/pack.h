/*
 * pack.h - the kernel that splits the operands into pieces and writes their images.
 *
 * Threads read in the direction in which the operand is contiguous. Where that is not the
 * image's, they are transposed in shared memory.
 */
#ifndef GOP_CUDA_MATMUL_PACK_H
#define GOP_CUDA_MATMUL_PACK_H

#include "cuda/matmul/image.h"

/* Reals of an item: a complex number has two, and row l of b becomes the rows (re, im) and
 * (-im, re), so that the real product holds the complex one. */
template <typename T> struct packing {
    enum { PARTS = 1 };
};
template <> struct packing<complex64> {
    enum { PARTS = 2 };
};

/* The real number at a line and a term, zero beyond the edges. */
template <typename T, bool OF_B> struct reals {
    enum { PARTS = packing<T>::PARTS };
    const float *from;
    int64_t line, term, lines, terms;

    GOP_DEVICE float at(int64_t i, int64_t l) const
    {
        if (i >= lines || l >= terms) return 0.0f;
        if constexpr (PARTS == 1) {
            return from[i * line + l * term];
        } else {
            const int64_t row = OF_B ? i / 2 : i;
            const int part = (int)(OF_B ? (i ^ l) & 1 : l & 1);
            const float value = from[2 * (row * line + l / 2 * term) + part];
            return OF_B && (l & 1) && !(i & 1) ? -value : value;
        }
    }
    /* Eight neighbours: terms of a line of a, columns of a term of b. AGAIN: they are read once
     * more, soon. */
    template <bool AGAIN = false>
    GOP_DEVICE void eight(float (&x)[8], int64_t i, int64_t l, int runs, int vectors) const
    {
        const bool whole = OF_B ? l < terms && i + 8 <= lines : i < lines && l + 8 <= terms;
        if (!runs || !whole) {
#pragma unroll
            for (int e = 0; e < 8; e++) x[e] = OF_B ? at(i + e, l) : at(i, l + e);
            return;
        }
        const int64_t across = OF_B ? l / PARTS * term : i * line;
        const float *address = from + PARTS * across + (OF_B ? i : l);
        if (vectors) {
            const vec128<float> low = AGAIN ? load128(address) : load128_stream(address);
            const vec128<float> high =
                AGAIN ? load128(address + 4) : load128_stream(address + 4);
#pragma unroll
            for (int e = 0; e < 8; e++) x[e] = e < 4 ? low.at[e] : high.at[e - 4];
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) x[e] = address[e];
        }
        if constexpr (PARTS == 2 && OF_B) {
            if (l & 1) {
#pragma unroll
                for (int e = 0; e < 8; e += 2) {
                    const float re = x[e];
                    x[e] = -x[e + 1];
                    x[e + 1] = re;
                }
            }
        }
    }
};

/* The index of a value in the buffer that transposes: a line of LONG and one more, and two more
 * after each 32 lines, so that the threads of a warp that read eight lines apart meet other
 * banks. */
GOP_DEVICE int padded_index(int line, int length, int at)
{
    return line * (length + 1) + line / 32 * 2 + at;
}
enum { BUFFER_ITEMS = PACK_WIDTH * (PACK_HEIGHT + 1) + 2 * PACK_WIDTH / 32 };

/* Where a thread's eight reals are in a unit, in each pass: four threads have a row and a block
 * of terms of a, sixteen have a term of b. */
template <bool OF_B> GOP_DEVICE int2 pack_place(int pass)
{
    const int t = threadIdx.x;
    if (OF_B) return make_int2(t % 16 * 8, pass * 16 + t / 16);
    return make_int2(pass * 32 + t % 4 * 8, t / 4);
}

/* What a thread met. */
struct pack_met {
    bool bad;      /* numbers that pieces cannot hold */
    unsigned tiny; /* so many whose second half is cut */
};

/* The lines of a thread's reals, the same in all passes of a unit: one of a, eight of b. */
template <bool OF_B> struct pack_lines {
    enum { MANY = OF_B ? 8 : 1 };
    int64_t first;
    float by[MANY]; /* their scales */

    /* Those of the first terms are noted with what undoes them. */
    GOP_DEVICE void find(const image_side &side, int64_t line, bool notes)
    {
        first = line;
#pragma unroll
        for (int e = 0; e < MANY; e++) by[e] = scale_by(side.largest[first + e]);
        if (!notes) return;
#pragma unroll
        for (int e = 0; e < MANY; e++) side.scale[first + e].undo = 1.0f / by[e];
    }
    /* Scales eight reals, and counts those whose second half will be cut. Each line's own count
     * is kept with its scale. */
    GOP_DEVICE unsigned scale(const image_side &side, float (&value)[8]) const
    {
        unsigned tiny = 0;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const bool some =
                value[e] != 0.0f; /* a number that becomes 0 is too small as well */
            value[e] *= by[e % MANY];
            tiny |= (unsigned)(some && fabsf(value[e]) < FP16X2_TINY) << e;
        }
        const unsigned count = __popc(tiny);
        if (OF_B)
            for (; tiny; tiny &= tiny - 1)
                atomicAdd(&side.scale[first + __ffs(tiny) - 1].doubt, FP16X2_DOUBT);
        else if (tiny) atomicAdd(&side.scale[first].doubt, (float)count * FP16X2_DOUBT);
        return count;
    }
};

/* Writes eight reals to the image. */
template <int PIECES, bool OF_B>
GOP_DEVICE void put_eight(const image_job &job, const image_side &side,
                          const pack_lines<OF_B> &lines, int64_t product, int x, int y,
                          float (&value)[8], pack_met &met)
{
    const int line = OF_B ? x : y, term = OF_B ? y : x;
    if (line >= side.padded || term >= job.blocks * IMAGE_TERMS) return;
#pragma unroll
    for (int e = 0; e < 8; e++) met.bad |= beyond_pieces<PIECES>(value[e]);
    if constexpr (PIECES == 2) met.tiny += lines.scale(side, value);
    const int wide = !OF_B && side.tile > 128; /* 256 lines */
    const int in_tile = line & ((128 << wide) - 1), l = term % IMAGE_TERMS;
    const int piece_bytes = (128 << wide) * IMAGE_TERMS * 2;
    const int64_t tile = (int64_t)(line >> (7 + wide)) * job.blocks + term / IMAGE_TERMS;
    const int place = OF_B ? in_tile / 64 * 4096 + l * 128 + ((in_tile / 8 ^ l) & 7) * 16
                           : in_tile * 64 + ((l / 8 ^ in_tile / 2) & 3) * 16;
    put_pieces<PIECES>(value,
                       side.to + product * side.product + tile * (PIECES * piece_bytes) + place,
                       piece_bytes);
}

/* A unit: PACK_HEIGHT by PACK_WIDTH reals, of a rows by terms, of b terms by columns. */
struct pack_unit {
    int64_t product;
    int x, y;
};
template <bool OF_B>
GOP_DEVICE pack_unit unit_of(const image_job &job, const image_side &side, int64_t unit)
{
    const int high = OF_B ? job.blocks * IMAGE_TERMS : side.padded;
    const int wide = OF_B ? side.padded : job.blocks * IMAGE_TERMS;
    const int across = (wide + PACK_WIDTH - 1) / PACK_WIDTH;
    const int64_t each = (int64_t)across * ((high + PACK_HEIGHT - 1) / PACK_HEIGHT);
    return {unit / each, (int)(unit % each % across) * PACK_WIDTH,
            (int)(unit % each / across) * PACK_HEIGHT};
}

template <typename T, bool OF_B> GOP_DEVICE reals<T, OF_B>
reals_of(const image_job &job, const image_side &side, int64_t product)
{
    const matmul_offsets of = matmul_batch(job.g, job.batch + product);
    return {(const float *)side.from + packing<T>::PARTS * (OF_B ? of.b : of.a), side.line,
            side.term, side.lines, job.k};
}

/* Packs a unit of one operand. */
template <typename T, int PIECES, bool OF_B> GOP_DEVICE void
pack(const image_job &job, const image_side &side, int64_t unit, float *buffer, pack_met &met)
{
    const pack_unit u = unit_of<OF_B>(job, side, unit);
    const reals<T, OF_B> in = reals_of<T, OF_B>(job, side, u.product);
    pack_lines<OF_B> lines;
    const auto find_lines = [&]() {
        if constexpr (PIECES == 2) {
            const int2 at = pack_place<OF_B>(0);
            const int line = OF_B ? u.x + at.x : u.y + at.y;
            lines.find(side, u.product * side.padded + line,
                       (OF_B ? u.y + at.y : u.x + at.x) == 0);
        }
    };
    if (!side.transposed) {
        enum { AHEAD = PIECES == 2 ? 2 : 4 }; /* loads in flight before the first is needed */
        find_lines();
#pragma unroll
        for (int pass = 0; pass < 4; pass += AHEAD) {
            float value[AHEAD][8];
#pragma unroll
            for (int e = 0; e < AHEAD; e++) {
                const int2 at = pack_place<OF_B>(pass + e);
                const int x = u.x + at.x, y = u.y + at.y;
                in.eight(value[e], OF_B ? x : y, OF_B ? y : x, side.runs, side.vectors);
            }
#pragma unroll
            for (int e = 0; e < AHEAD; e++) {
                const int2 at = pack_place<OF_B>(pass + e);
                put_eight<PIECES, OF_B>(job, side, lines, u.product, u.x + at.x, u.y + at.y,
                                        value[e], met);
            }
        }
        return;
    }
    __syncthreads();
    /* y is the contiguous direction; a thread stays at one y and goes along x */
    enum { EACH = PACK_HEIGHT * PACK_WIDTH / THREADS_OF_PACK, STEP = PACK_WIDTH / EACH };
    const int y = threadIdx.x % PACK_HEIGHT, first = threadIdx.x / PACK_HEIGHT;
    const bool whole = (OF_B ? u.x + PACK_WIDTH <= side.lines && u.y + PACK_HEIGHT <= job.k
                             : u.y + PACK_HEIGHT <= side.lines && u.x + PACK_WIDTH <= job.k);
    if (packing<T>::PARTS == 1 && whole) {
        const int64_t along = OF_B ? in.line : in.term, down = OF_B ? in.term : in.line;
        const float *address = in.from + (u.x + first) * along + (u.y + y) * down;
#pragma unroll 8
        for (int e = 0; e < EACH; e++, address += STEP * along)
            buffer[padded_index(first + e * STEP, PACK_HEIGHT, y)] = *address;
    } else {
#pragma unroll 4
        for (int e = 0; e < EACH; e++) {
            const int x = first + e * STEP;
            buffer[padded_index(x, PACK_HEIGHT, y)] =
                OF_B ? in.at(u.x + x, u.y + y) : in.at(u.y + y, u.x + x);
        }
    }
    find_lines();
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < 4; pass++) {
        const int2 at = pack_place<OF_B>(pass);
        float value[8];
#pragma unroll
        for (int e = 0; e < 8; e++)
            value[e] = buffer[padded_index(at.x + e, PACK_HEIGHT, at.y)];
        put_eight<PIECES, OF_B>(job, side, lines, u.product, u.x + at.x, u.y + at.y, value,
                                met);
    }
}

template <typename T, int PIECES>
__global__ void __launch_bounds__(THREADS_OF_PACK, PACK_BLOCKS)
    matmul_pack_kernel(const image_job job)
{
    __shared__ float buffer[BUFFER_ITEMS];
    launch_dependents();
    grid_dependency_sync();
    if (job.only_if && *job.only_if == 0) return;
    pack_met met = {false, 0};
    for (int64_t unit = blockIdx.x; unit < job.units; unit += gridDim.x) {
        if (unit < job.units_a) pack<T, PIECES, false>(job, job.a, unit, buffer, met);
        else pack<T, PIECES, true>(job, job.b, unit - job.units_a, buffer, met);
    }
    const bool bad = __syncthreads_or(met.bad);
    if (threadIdx.x == 0) job.bad[blockIdx.x] = bad;
    if constexpr (PIECES == 2) {
        unsigned tiny = met.tiny;
        for (int lanes = 16; lanes; lanes /= 2) tiny += __shfl_xor_sync(~0u, tiny, lanes);
        if (threadIdx.x % 32 == 0 && tiny) atomicAdd(&job.guard->tiny, tiny);
    }
}

/* Units of an operand. */
static inline int64_t pack_units(const image_side &side, int blocks, bool of_b,
                                 int64_t products)
{
    const int64_t terms = (int64_t)blocks * IMAGE_TERMS;
    const int64_t high = of_b ? terms : side.padded, wide = of_b ? side.padded : terms;
    return (high + PACK_HEIGHT - 1) / PACK_HEIGHT * ((wide + PACK_WIDTH - 1) / PACK_WIDTH) *
           (side.shared ? 1 : products);
}

#endif
