/*
 * dtypes.h - the macros that a CPU template is written in. Each depends on D, the dtype's name.
 */
#ifndef GOP_CPU_DTYPES_H
#define GOP_CPU_DTYPES_H

/* T: the type as stored. */
#define GOP_T_bool uint8_t
#define GOP_T_int8 int8_t
#define GOP_T_int16 int16_t
#define GOP_T_int32 int32_t
#define GOP_T_int64 int64_t
#define GOP_T_uint8 uint8_t
#define GOP_T_uint16 uint16_t
#define GOP_T_uint32 uint32_t
#define GOP_T_uint64 uint64_t
#define GOP_T_float16 uint16_t
#define GOP_T_bfloat16 uint16_t
#define GOP_T_float32 float
#define GOP_T_float64 double
#define GOP_T_complex64 gop_c64
#define GOP_T_complex128 gop_c128

/* A: the type for arithmetic. */
#define GOP_A_bool uint8_t
#define GOP_A_int8 int8_t
#define GOP_A_int16 int16_t
#define GOP_A_int32 int32_t
#define GOP_A_int64 int64_t
#define GOP_A_uint8 uint8_t
#define GOP_A_uint16 uint16_t
#define GOP_A_uint32 uint32_t
#define GOP_A_uint64 uint64_t
#define GOP_A_float16 float
#define GOP_A_bfloat16 float
#define GOP_A_float32 float
#define GOP_A_float64 double
#define GOP_A_complex64 gop_c64
#define GOP_A_complex128 gop_c128

#define GOP_LOAD_bool(x) ((uint8_t)((x) != 0))
#define GOP_LOAD_int8(x) (x)
#define GOP_LOAD_int16(x) (x)
#define GOP_LOAD_int32(x) (x)
#define GOP_LOAD_int64(x) (x)
#define GOP_LOAD_uint8(x) (x)
#define GOP_LOAD_uint16(x) (x)
#define GOP_LOAD_uint32(x) (x)
#define GOP_LOAD_uint64(x) (x)
#define GOP_LOAD_float16(x) gop_f16_load(x)
#define GOP_LOAD_bfloat16(x) gop_bf16_load(x)
#define GOP_LOAD_float32(x) (x)
#define GOP_LOAD_float64(x) (x)
#define GOP_LOAD_complex64(x) (x)
#define GOP_LOAD_complex128(x) (x)

#define GOP_STORE_bool(x) ((uint8_t)((x) != 0))
#define GOP_STORE_int8(x) ((int8_t)(x))
#define GOP_STORE_int16(x) ((int16_t)(x))
#define GOP_STORE_int32(x) ((int32_t)(x))
#define GOP_STORE_int64(x) ((int64_t)(x))
#define GOP_STORE_uint8(x) ((uint8_t)(x))
#define GOP_STORE_uint16(x) ((uint16_t)(x))
#define GOP_STORE_uint32(x) ((uint32_t)(x))
#define GOP_STORE_uint64(x) ((uint64_t)(x))
#define GOP_STORE_float16(x) gop_f16_store(x)
#define GOP_STORE_bfloat16(x) gop_bf16_store(x)
#define GOP_STORE_float32(x) (x)
#define GOP_STORE_float64(x) (x)
#define GOP_STORE_complex64(x) (x)
#define GOP_STORE_complex128(x) (x)

/* Kind: 1 bool, 2 integer, 3 float (with float16 and bfloat16), 4 complex. */
#define GOP_KIND_bool 1
#define GOP_KIND_int8 2
#define GOP_KIND_int16 2
#define GOP_KIND_int32 2
#define GOP_KIND_int64 2
#define GOP_KIND_uint8 2
#define GOP_KIND_uint16 2
#define GOP_KIND_uint32 2
#define GOP_KIND_uint64 2
#define GOP_KIND_float16 3
#define GOP_KIND_bfloat16 3
#define GOP_KIND_float32 3
#define GOP_KIND_float64 3
#define GOP_KIND_complex64 4
#define GOP_KIND_complex128 4
#define GOP_HALF_bool 0
#define GOP_HALF_int8 0
#define GOP_HALF_int16 0
#define GOP_HALF_int32 0
#define GOP_HALF_int64 0
#define GOP_HALF_uint8 0
#define GOP_HALF_uint16 0
#define GOP_HALF_uint32 0
#define GOP_HALF_uint64 0
#define GOP_HALF_float16 1
#define GOP_HALF_bfloat16 1
#define GOP_HALF_float32 0
#define GOP_HALF_float64 0
#define GOP_HALF_complex64 0
#define GOP_HALF_complex128 0

#define FN(name) GOP_PASTE(name, D)
#define T GOP_PASTE(GOP_T, D)
#define A GOP_PASTE(GOP_A, D)
#define LOAD(x) GOP_PASTE(GOP_LOAD, D)(x)
#define STORE(x) GOP_PASTE(GOP_STORE, D)(x)
#define IS_BOOL (GOP_PASTE(GOP_KIND, D) == 1)
#define IS_INT (GOP_PASTE(GOP_KIND, D) == 2)
#define IS_FLOAT (GOP_PASTE(GOP_KIND, D) == 3)
#define IS_COMPLEX (GOP_PASTE(GOP_KIND, D) == 4)
#define IS_HALF GOP_PASTE(GOP_HALF, D)

#endif
