/*
 * vectors.h - OpenCL C's vectors of 2, 3, 4, 8 and 16 elements, with its operators.
 *
 * As on a GPU, a copy of a vector is one access of all its bytes, or of 16 bytes at a time if
 * it has more. An element that is named is accessed by itself.
 */
#ifndef GOP_OPENCL_VECTORS_H
#define GOP_OPENCL_VECTORS_H

/* The number of stored elements: three take the room of four. */
template <int N> struct gop_cl_kept {
    enum { value = N == 3 ? 4 : N };
};

struct gop_cl_zeros {
};
/* A literal is a constant, so that `constant float4 c = (float4)(1, 2, 3, 4);` is one. */
template <typename T, int N> struct gop_cl_store;
#define GOP_CL_STORE(count, ...)                                                               \
    template <typename T> struct gop_cl_store<T, count> {                                      \
        gop_cl_store() = default;                                                              \
        GOP_DEVICE constexpr gop_cl_store(gop_cl_zeros) : v{} {}                               \
        union {                                                                                \
            T v[gop_cl_kept<count>::value];                                                    \
            struct {                                                                           \
                T __VA_ARGS__;                                                                 \
            };                                                                                 \
            struct {                                                                           \
                T GOP_CL_NUMBERED_##count;                                                     \
            };                                                                                 \
        };                                                                                     \
    };
#define GOP_CL_NUMBERED_2 s0, s1
#define GOP_CL_NUMBERED_3 s0, s1, s2
#define GOP_CL_NUMBERED_4 s0, s1, s2, s3
#define GOP_CL_NUMBERED_8 s0, s1, s2, s3, s4, s5, s6, s7
#define GOP_CL_NUMBERED_16 s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf
GOP_CL_STORE(2, x, y)
GOP_CL_STORE(3, x, y, z)
GOP_CL_STORE(4, x, y, z, w)
GOP_CL_STORE(8, x, y, z, w)
GOP_CL_STORE(16, x, y, z, w)

template <typename T, int N, int... which> struct gop_cl_parts;
template <typename T, int N, int half> struct gop_cl_halves;
#define GOP_CL_CHANGE(op)                                                                      \
    GOP_DEVICE void operator op##=(const part &by) const                                       \
    {                                                                                          \
        set(get() op by);                                                                      \
    }
#define GOP_CL_CHANGES                                                                         \
    GOP_CL_CHANGE(+)                                                                           \
    GOP_CL_CHANGE(-)                                                                           \
    GOP_CL_CHANGE(*)                                                                           \
    GOP_CL_CHANGE(/)                                                                           \
    GOP_CL_CHANGE(%)                                                                           \
    GOP_CL_CHANGE(&)                                                                           \
    GOP_CL_CHANGE(|)                                                                           \
    GOP_CL_CHANGE(^)                                                                           \
    GOP_CL_CHANGE(<<)                                                                          \
    GOP_CL_CHANGE(>>)

template <typename T, int N> struct gop_vec : gop_cl_store<T, N> {
    enum {
        KEPT = gop_cl_kept<N>::value,
        BYTES = KEPT * (int)sizeof(T),
        PIECE = BYTES < 16 ? BYTES : 16
    };
    typedef T piece __attribute__((vector_size(PIECE), may_alias, aligned(PIECE)));
    using gop_cl_store<T, N>::v;

    gop_vec() = default;
    GOP_DEVICE void take(const gop_vec &from)
    {
        for (int i = 0; i < BYTES / PIECE; i++)
            ((piece *)(void *)this)[i] = ((const piece *)(const void *)&from)[i];
    }
    GOP_DEVICE gop_vec(const gop_vec &from) { take(from); }
    GOP_DEVICE gop_vec &operator=(const gop_vec &from)
    {
        take(from);
        return *this;
    }
    GOP_DEVICE constexpr gop_vec(T all) : gop_cl_store<T, N>(gop_cl_zeros{})
    {
        for (int i = 0; i < N; i++) v[i] = all;
    }
    /* A literal: elements and vectors in order. */
    template <typename A, typename B, typename... More>
    GOP_DEVICE constexpr gop_vec(const A &a, const B &b, const More &...more)
        : gop_cl_store<T, N>(gop_cl_zeros{})
    {
        int at = 0;
        put(at, a), put(at, b), (put(at, more), ...);
    }
    template <typename A> GOP_DEVICE constexpr void put(int &at, const A &one)
    {
        if (at < N) v[at] = (T)one;
        at++;
    }
    template <int M> GOP_DEVICE constexpr void put(int &at, const gop_vec<T, M> &part)
    {
        for (int i = 0; i < M; i++) put(at, part.v[i]);
    }
    /* Named parts: as a value, and stored to. What is stored may be of the same vector, as in
     * v.yx = v, so it is a copy. */
    template <int... which> GOP_DEVICE gop_vec<T, sizeof...(which)> gop_cl_part() const
    {
        return gop_vec<T, sizeof...(which)>(v[which]...);
    }
    template <int... which>
    GOP_DEVICE gop_vec<T, sizeof...(which)> gop_cl_set(gop_vec<T, sizeof...(which)> part)
    {
        int i = 0;
        ((v[which] = part.v[i++]), ...);
        return part;
    }
    template <int... which> GOP_DEVICE gop_cl_parts<T, N, which...> gop_cl_change_part()
    {
        return {*this};
    }
    template <int half> GOP_DEVICE gop_cl_halves<T, N, half> gop_cl_change_half()
    {
        return {*this};
    }
    /* Elements of the lower half (0), the upper half (1), even (2) and odd (3) numbers. */
    template <int half> static GOP_DEVICE constexpr int in_half(int i)
    {
        return half == 0 ? i : half == 1 ? KEPT / 2 + i : 2 * i + (half == 3);
    }
    template <int half> GOP_DEVICE gop_vec<T, KEPT / 2> gop_cl_half() const
    {
        gop_vec<T, KEPT / 2> made;
        for (int i = 0; i < KEPT / 2; i++) made.v[i] = v[in_half<half>(i)];
        return made;
    }
    template <int half>
    GOP_DEVICE gop_vec<T, KEPT / 2> gop_cl_set_half(gop_vec<T, KEPT / 2> part)
    {
        for (int i = 0; i < KEPT / 2; i++) v[in_half<half>(i)] = part.v[i];
        return part;
    }
};
/* Parts that `+=` and its like change: v.xy *= 2, v.hi += w. */
template <typename T, int N, int... which> struct gop_cl_parts {
    typedef gop_vec<T, sizeof...(which)> part;
    gop_vec<T, N> &of;
    GOP_DEVICE part get() const { return of.template gop_cl_part<which...>(); }
    GOP_DEVICE void set(const part &to) const { of.template gop_cl_set<which...>(to); }
    GOP_CL_CHANGES
};
template <typename T, int N, int half> struct gop_cl_halves {
    typedef gop_vec<T, gop_vec<T, N>::KEPT / 2> part;
    gop_vec<T, N> &of;
    GOP_DEVICE part get() const { return of.template gop_cl_half<half>(); }
    GOP_DEVICE void set(const part &to) const { of.template gop_cl_set_half<half>(to); }
    GOP_CL_CHANGES
};
template <typename T> struct gop_vec<T, 1> { /* half of two elements is a scalar */
    T v[1];
    GOP_DEVICE operator T() const { return v[0]; }
    gop_vec() = default;
    GOP_DEVICE gop_vec(T one) : v{one} {}
};

template <typename T> struct gop_cl_itself {
    typedef T type;
};
template <int bytes> struct gop_cl_mask; /* the result of a comparison */
template <> struct gop_cl_mask<1> {
    typedef signed char type;
};
template <> struct gop_cl_mask<2> {
    typedef short type;
};
template <> struct gop_cl_mask<4> {
    typedef int type;
};
template <> struct gop_cl_mask<8> {
    typedef long type;
};
#define GOP_CL_TRUTH(T) typename gop_cl_mask<sizeof(T)>::type

/* Operands are passed by value, so that an operand in memory is loaded whole. */

#define GOP_CL_BINARY(result, op, sign)                                                        \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<result, N> operator op(gop_vec<T, N> a, gop_vec<T, N> b)                \
    {                                                                                          \
        gop_vec<result, N> made;                                                               \
        for (int i = 0; i < N; i++) made.v[i] = (result)(sign(a.v[i] op b.v[i]));              \
        return made;                                                                           \
    }                                                                                          \
    template <typename T, int N> GOP_DEVICE gop_vec<result, N> operator op(                    \
        gop_vec<T, N> a, typename gop_cl_itself<T>::type b)                                    \
    {                                                                                          \
        return a op gop_vec<T, N>(b);                                                          \
    }                                                                                          \
    template <typename T, int N> GOP_DEVICE gop_vec<result, N> operator op(                    \
        typename gop_cl_itself<T>::type a, gop_vec<T, N> b)                                    \
    {                                                                                          \
        return gop_vec<T, N>(a) op b;                                                          \
    }
#define GOP_CL_ARITHMETIC(op)                                                                  \
    GOP_CL_BINARY(T, op, )                                                                     \
    template <typename T, int N, typename B>                                                   \
    GOP_DEVICE gop_vec<T, N> &operator op##=(gop_vec<T, N> &a, const B &b)                     \
    {                                                                                          \
        return a = a op b;                                                                     \
    }
GOP_CL_ARITHMETIC(+)
GOP_CL_ARITHMETIC(-)
GOP_CL_ARITHMETIC(*)
GOP_CL_ARITHMETIC(/)
GOP_CL_ARITHMETIC(%)
GOP_CL_ARITHMETIC(&)
GOP_CL_ARITHMETIC(|)
GOP_CL_ARITHMETIC(^)

/* A distance counts modulo the width of an element, in OpenCL C. */
#define GOP_CL_SHIFT(op)                                                                       \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> operator op(gop_vec<T, N> a, gop_vec<T, N> b)                     \
    {                                                                                          \
        gop_vec<T, N> made;                                                                    \
        for (int i = 0; i < N; i++)                                                            \
            made.v[i] = (T)(a.v[i] op(b.v[i] & (8 * (int)sizeof(T) - 1)));                     \
        return made;                                                                           \
    }                                                                                          \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> operator op(gop_vec<T, N> a, typename gop_cl_itself<T>::type b)   \
    {                                                                                          \
        return a op gop_vec<T, N>(b);                                                          \
    }                                                                                          \
    template <typename T, int N, typename B>                                                   \
    GOP_DEVICE gop_vec<T, N> &operator op##=(gop_vec<T, N> &a, const B &b)                     \
    {                                                                                          \
        return a = a op b;                                                                     \
    }
GOP_CL_SHIFT(<<)
GOP_CL_SHIFT(>>)

GOP_CL_BINARY(GOP_CL_TRUTH(T), <, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), >, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), <=, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), >=, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), ==, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), !=, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), &&, -)
GOP_CL_BINARY(GOP_CL_TRUTH(T), ||, -)
template <typename T, int N> GOP_DEVICE gop_vec<GOP_CL_TRUTH(T), N> operator!(gop_vec<T, N> a)
{
    return a == gop_vec<T, N>((T)0);
}
#define GOP_CL_STEP(op, by)                                                                    \
    template <typename T, int N> GOP_DEVICE gop_vec<T, N> &operator op(gop_vec<T, N> &a)       \
    {                                                                                          \
        return a = a by gop_vec<T, N>((T)1);                                                   \
    }                                                                                          \
    template <typename T, int N> GOP_DEVICE gop_vec<T, N> operator op(gop_vec<T, N> &a, int)   \
    {                                                                                          \
        const gop_vec<T, N> before = a;                                                        \
        a = a by gop_vec<T, N>((T)1);                                                          \
        return before;                                                                         \
    }
GOP_CL_STEP(++, +)
GOP_CL_STEP(--, -)
template <typename T, int N> GOP_DEVICE gop_vec<T, N> operator-(gop_vec<T, N> a)
{
    gop_vec<T, N> made;
    for (int i = 0; i < N; i++) made.v[i] = -a.v[i];
    return made;
}
template <typename T, int N> GOP_DEVICE gop_vec<T, N> operator~(gop_vec<T, N> a)
{
    gop_vec<T, N> made;
    for (int i = 0; i < N; i++) made.v[i] = (T)~a.v[i];
    return made;
}

#define GOP_CL_TYPES(name, item)                                                               \
    typedef gop_vec<item, 2> cl_##name##2;                                                     \
    typedef gop_vec<item, 3> cl_##name##3;                                                     \
    typedef gop_vec<item, 4> cl_##name##4;                                                     \
    typedef gop_vec<item, 8> cl_##name##8;                                                     \
    typedef gop_vec<item, 16> cl_##name##16;
GOP_CL_TYPES(char, char)
GOP_CL_TYPES(uchar, uchar)
GOP_CL_TYPES(short, short)
GOP_CL_TYPES(ushort, ushort)
GOP_CL_TYPES(int, int)
GOP_CL_TYPES(uint, unsigned)
GOP_CL_TYPES(long, long)
GOP_CL_TYPES(ulong, unsigned long)
GOP_CL_TYPES(float, float)
GOP_CL_TYPES(double, double)

#endif
