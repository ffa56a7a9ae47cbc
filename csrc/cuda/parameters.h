/*
 * parameters.h - what a kernel takes, told by the compiler: for kernels that Python compiles.
 *
 * Each parameter becomes a number: NumPy's letter for its type (0 for what Python cannot pass),
 * + 256 for a pointer to such, + 512 more where what it points to is const.
 */
#ifndef GOP_CUDA_PARAMETERS_H
#define GOP_CUDA_PARAMETERS_H

struct __half; /* of cuda_fp16.h, if the kernels include it */

template <typename T> struct gop_letter {
    enum { value = 0 };
};
#define GOP_LETTER(type, letter)                                                               \
    template <> struct gop_letter<type> {                                                      \
        enum { value = letter };                                                               \
    };
GOP_LETTER(bool, '?')
GOP_LETTER(char, 'b')
GOP_LETTER(signed char, 'b')
GOP_LETTER(unsigned char, 'B')
GOP_LETTER(short, 'h')
GOP_LETTER(unsigned short, 'H')
GOP_LETTER(int, 'i')
GOP_LETTER(unsigned, 'I')
GOP_LETTER(long, 'l')
GOP_LETTER(unsigned long, 'L')
GOP_LETTER(long long, 'l')
GOP_LETTER(unsigned long long, 'L')
GOP_LETTER(float, 'f')
GOP_LETTER(double, 'd')
GOP_LETTER(__half, 'e')
#undef GOP_LETTER

template <typename T> struct gop_parameter {
    enum { value = gop_letter<T>::value };
};
template <typename T> struct gop_parameter<T *> {
    enum { value = gop_letter<T>::value + 256 };
};
template <typename T> struct gop_parameter<const T *> {
    enum { value = gop_letter<T>::value + 256 + 512 };
};
template <typename T> struct gop_parameter<volatile T *> : gop_parameter<T *> {
};
template <typename T> struct gop_parameter<const volatile T *> : gop_parameter<const T *> {
};

template <int... codes> struct gop_codes {
};
template <typename F> struct gop_codes_of;
template <typename... P> struct gop_codes_of<void (*)(P...)> {
    typedef gop_codes<gop_parameter<P>::value...> type;
};

#endif
