/*
 * values.c - what the arrays of the driver's calls hold.
 */
#include <string.h>

#include "driver.h"

double random_value(void)
{
    static uint64_t state = 20260101;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state / 9223372036854775808.0;
}

static char *item_at(const gop_array *array, int64_t i)
{
    char *at = array->data;
    for (int d = array->ndim - 1; d >= 0; d--) {
        at += i % array->shape[d] * array->strides[d];
        i /= array->shape[d];
    }
    return at;
}

static uint16_t to_f16(double value) /* small values, cut to 10 bits: enough for data */
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const int exponent = (int)(bits >> 23 & 255) - 112;
    const uint32_t sign = bits >> 16 & 0x8000;
    if (exponent <= 0) return (uint16_t)sign;
    return (uint16_t)(sign | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

void set_item(const gop_array *array, int64_t i, double value)
{
    char *at = item_at(array, i);
    const size_t size = (size_t)gop_dtype_size(array->dtype);
    const float single[2] = {(float)value, (float)(1 - value)};
    const double wide[2] = {value, 1 - value};
    const int64_t whole = (int64_t)value;
    const uint16_t half = to_f16(value);
    uint32_t bits;
    memcpy(&bits, single, 4);
    const uint16_t brain = (uint16_t)(bits >> 16);
    const char truth = value > 0;
    switch (array->dtype) {
    case GOP_BOOL:
        *at = truth;
        break;
    case GOP_FLOAT16:
        memcpy(at, &half, 2);
        break;
    case GOP_BFLOAT16:
        memcpy(at, &brain, 2);
        break;
    case GOP_FLOAT32:
    case GOP_COMPLEX64:
        memcpy(at, single, size);
        break;
    case GOP_FLOAT64:
    case GOP_COMPLEX128:
        memcpy(at, wide, size);
        break;
    default:
        memcpy(at, &whole, size); /* little end first: the low bytes are the value */
    }
}

/* The exponent's bits of one real part of a float dtype, all set in infinities and NaNs. */
static uint64_t exponent_of(gop_dtype dtype)
{
    switch (dtype) {
    case GOP_FLOAT16:
        return 0x7c00;
    case GOP_BFLOAT16:
        return 0x7f80;
    case GOP_FLOAT32:
    case GOP_COMPLEX64:
        return 0x7f800000;
    default:
        return UINT64_C(0x7ff) << 52;
    }
}

int same_items(gop_dtype dtype, const void *a, const void *b, size_t bytes)
{
    const char kind = gop_dtype_kind(dtype);
    if (memcmp(a, b, bytes) == 0) return 1;
    if (kind != 'f' && kind != 'c') return 0;
    const size_t part = (size_t)gop_dtype_size(dtype) / (kind == 'c' ? 2 : 1);
    const uint64_t exponent = exponent_of(dtype), magnitude = UINT64_MAX >> (65 - 8 * part);
    for (size_t at = 0; at < bytes; at += part) {
        uint64_t x = 0, y = 0; /* little end first */
        memcpy(&x, (const char *)a + at, part);
        memcpy(&y, (const char *)b + at, part);
        const int nans = (x & magnitude) > exponent && (y & magnitude) > exponent;
        if (x != y && !nans) return 0;
    }
    return 1;
}
