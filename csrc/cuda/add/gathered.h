/*
 * gathered.h - 16 bytes of an operand of `indexed`, by the widest loads that its layout allows.
 */
#ifndef GOP_CUDA_ADD_GATHERED_H
#define GOP_CUDA_ADD_GATHERED_H

#include "cuda/common/fast_divisor.h"
#include "cuda/add/halves.h"
#include "cuda/add/operands.h"

/* How a thread reads an operand's share of its N elements; the same for all threads. A *line*
 * is a run along the innermost axis. */
enum gathering : uint8_t {
    STEPPED,  /* an element at a time */
    REPEATED, /* one element for each line */
    LINES,    /* by words of 4 bytes, of two lines where one ends */
    WORDS,    /* by words of 4 bytes: all elements are contiguous */
    VECTORS,  /* by one vector */
};

/* The axes, innermost first, that do not merge in the operands which need an offset. Offsets
 * are sums modulo 2^32, read as an int32_t. */
struct gathered_axes {
    enum { MOST = 8, FLAT = 4 };
    uint32_t size;     /* elements of the output */
    int outermost;     /* axis; up to FLAT, axes of INT32_MAX elements follow it */
    uint32_t outer[3]; /* its strides */
    gathering by[3];
    uint32_t words[3]; /* of an operand at which five whole words may begin */
    uint32_t reverse;  /* whether the last blocks come first */
    uint64_t first[3]; /* address of the first of those words */
    struct {
        fast_divisor n;
        uint32_t stride[3];
    } axis[MOST];
};

/* Where an element lies in each input, and its place along the innermost axis. */
struct gathered_place {
    uint32_t at[3], x;
};

/* Splits off the index along an axis from i, which then counts lines of it, and adds its
 * offset. */
template <int INPUTS> GOP_DEVICE uint32_t place_along(const gathered_axes &p, int axis,
                                                      uint32_t &i, uint32_t (&at)[3])
{
    const uint32_t x = take_index(i, p.axis[axis].n);
#pragma unroll
    for (int o = 0; o < INPUTS; o++) at[o] += x * p.axis[axis].stride[o];
    return x;
}

/* COUNT elements at a time. The last quotient is the index along the outermost axis. */
template <int INPUTS, int COUNT> GOP_DEVICE void
place_gathered(const gathered_axes &p, uint32_t (&i)[COUNT], gathered_place (&to)[COUNT])
{
#pragma unroll
    for (int k = 0; k < COUNT; k++) to[k] = {{}, i[k]};
#pragma unroll
    for (int axis = 0; axis < gathered_axes::FLAT; axis++) {
        if (axis >= p.outermost) break; /* the same for all threads */
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const uint32_t x = place_along<INPUTS>(p, axis, i[k], to[k].at);
            if (axis == 0) to[k].x = x;
        }
    }
#pragma unroll 1
    for (int axis = gathered_axes::FLAT; axis < p.outermost; axis++) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) place_along<INPUTS>(p, axis, i[k], to[k].at);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++)
#pragma unroll
        for (int o = 0; o < INPUTS; o++) to[k].at[o] += i[k] * p.outer[o];
}

template <int INPUTS>
GOP_DEVICE gathered_place place_gathered(const gathered_axes &p, uint32_t element)
{
    uint32_t i[1] = {element};
    gathered_place to[1];
    place_gathered<INPUTS, 1>(p, i, to);
    return to[0];
}

/* ---- from one element to the next ---- */

/* Where an element lies, and its places along the first axes. */
struct stepped_place {
    uint32_t at[3], x[gathered_axes::FLAT];
};

template <int INPUTS> GOP_DEVICE stepped_place place_stepped(const gathered_axes &p, uint32_t i)
{
    stepped_place to = {};
#pragma unroll
    for (int axis = 0; axis < gathered_axes::FLAT; axis++) {
        if (axis > p.outermost) continue; /* the same for all threads */
        to.x[axis] = place_along<INPUTS>(p, axis, i, to.at);
    }
#pragma unroll 1
    for (int axis = gathered_axes::FLAT; axis <= p.outermost; axis++)
        place_along<INPUTS>(p, axis, i, to.at);
    return to;
}

/* From element i - 1 to i: an addition, and a carry into each axis after one that ends. */
template <int INPUTS>
GOP_DEVICE void step_gathered(const gathered_axes &p, uint32_t i, stepped_place &place)
{
#pragma unroll
    for (int o = 0; o < INPUTS; o++) place.at[o] += p.axis[0].stride[o];
#pragma unroll
    for (int axis = 0; axis < gathered_axes::FLAT; axis++) {
        if (++place.x[axis] != p.axis[axis].n.d) return;
        if (axis == gathered_axes::FLAT - 1) break;
#pragma unroll
        for (int o = 0; o < INPUTS; o++)
            place.at[o] += p.axis[axis + 1].stride[o] - place.x[axis] * p.axis[axis].stride[o];
        place.x[axis] = 0;
    }
    place = place_stepped<INPUTS>(p, i);
}

/* What is stored at once, by its bytes. */
template <int BYTES> struct streamed_as {
    typedef uint4 type;
};
template <> struct streamed_as<4> {
    typedef uint32_t type;
};
template <> struct streamed_as<8> {
    typedef uint2 type;
};

/* ---- a share ---- */

/* 16 bytes of an operand, as words: small elements would take a register each. */
template <typename T> struct share {
    uint32_t w[4];
};

/* Elements come in order, k from 0. */
template <typename T> GOP_DEVICE void put(share<T> &to, int k, T value)
{
    if constexpr (sizeof(T) >= 4)
        __builtin_memcpy(to.w + k * (sizeof(T) / 4), &value, sizeof(T));
    else {
        uint32_t bits = 0;
        __builtin_memcpy(&bits, &value, sizeof(T));
        const int byte = k * (int)sizeof(T);
        to.w[byte / 4] = byte % 4 ? to.w[byte / 4] | bits << 8 * (byte % 4) : bits;
    }
}

template <typename T> GOP_DEVICE share<T> share_of(uint4 v)
{
    return {{v.x, v.y, v.z, v.w}};
}

template <typename T> GOP_DEVICE share<T> load_vector(const T *address)
{
    return share_of<T>(*reinterpret_cast<const uint4 *>(address));
}

template <typename Op, typename T>
GOP_DEVICE uint4 results_of(const share<T> (&from)[Op::INPUTS])
{
    typedef vec128<typename computed_as<Op, T>::type> vector;
    vector in[Op::INPUTS], v;
    __builtin_memcpy(in, from, sizeof in);
#pragma unroll
    for (int k = 0; k < vector::N; k++)
        v.at[k] = Op::of(in[0].at[k], in[1].at[k], in[Op::INPUTS - 1].at[k]);
    uint4 words;
    __builtin_memcpy(&words, &v, 16);
    return words;
}

/* Results are evicted from L2 first, so that inputs stay there. */
template <typename T> GOP_DEVICE void store_streaming(T *address, T value)
{
    typedef typename streamed_as<sizeof(T)>::type word;
    word w;
    __builtin_memcpy(&w, &value, sizeof(T));
    __stcs(reinterpret_cast<word *>(address), w);
}

/* The rest of a line's elements, then those of the next line. */
template <typename T> GOP_DEVICE share<T>
load_stepped(const T *in, uint32_t step, uint32_t left, uint32_t here, uint32_t next)
{
    share<T> v;
    const uint32_t then = left < vec128<T>::N ? next - left * step : here;
#pragma unroll
    for (int k = 0; k < vec128<T>::N; k++)
        put(v, k, in[(int32_t)(((uint32_t)k < left ? here : then) + k * step)]);
    return v;
}

/* ---- unaligned elements, by words ---- */

/* Five words hold 16 bytes that start `shift` bits into the first. */
struct five_words {
    uint32_t w[5];
    uint32_t shift;
};

/* Elements `begin` to `end` of the N from `element` on; one by one where a word would reach
 * beyond the operand. */
template <typename T> GOP_DEVICE five_words load_words(const T *element, int begin, int end,
                                                       uint64_t first, uint32_t words)
{
    five_words five;
    const uint64_t address = (uint64_t)(uintptr_t)element;
    const uint64_t from = address & ~(uint64_t)3;
    if (from >= first && from - first < (uint64_t)words * 4) {
        const uint32_t *const word = reinterpret_cast<const uint32_t *>(
            reinterpret_cast<const char *>(element) - (address & 3));
#pragma unroll
        for (int j = 0; j < 5; j++) five.w[j] = word[j];
        five.shift = 8 * (uint32_t)(address & 3);
        return five;
    }
    share<T> v;
#pragma unroll
    for (int k = 0; k < vec128<T>::N; k++) put(v, k, k >= begin && k < end ? element[k] : T{});
#pragma unroll
    for (int j = 0; j < 4; j++) five.w[j] = v.w[j];
    five.w[4] = five.shift = 0;
    return five;
}

template <typename T> GOP_DEVICE share<T> shifted(const five_words &five)
{
    share<T> v;
#pragma unroll
    for (int j = 0; j < 4; j++) v.w[j] = __funnelshift_r(five.w[j], five.w[j + 1], five.shift);
    return v;
}

/* The first `count` elements of a, then those of b. */
template <typename T>
GOP_DEVICE share<T> joined(const share<T> &a, const share<T> &b, int count)
{
    share<T> both;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int bits = 8 * ((int)sizeof(T) * count - 4 * j);
        const uint32_t of_b = bits <= 0 ? ~0u : bits >= 32 ? 0u : ~0u << bits;
        both.w[j] = (a.w[j] & ~of_b) | (b.w[j] & of_b);
    }
    return both;
}

#endif
