/*
 * each_dtype.h - includes the template named by GOP_TPL once per dtype; no guard, on purpose.
 * With GOP_TPL_TEACHING defined: int32, float32 and float64 alone. With GOP_TPL_FLOATS: the
 * floats.
 */
#if !defined(GOP_TPL_TEACHING) && !defined(GOP_TPL_FLOATS)
#define D bool
#include GOP_TPL
#undef D
#define D int8
#include GOP_TPL
#undef D
#define D int16
#include GOP_TPL
#undef D
#define D int64
#include GOP_TPL
#undef D
#define D uint8
#include GOP_TPL
#undef D
#define D uint16
#include GOP_TPL
#undef D
#define D uint32
#include GOP_TPL
#undef D
#define D uint64
#include GOP_TPL
#undef D
#define D complex64
#include GOP_TPL
#undef D
#define D complex128
#include GOP_TPL
#undef D
#endif
#if !defined(GOP_TPL_FLOATS)
#define D int32
#include GOP_TPL
#undef D
#endif
#if !defined(GOP_TPL_TEACHING)
#define D float16
#include GOP_TPL
#undef D
#define D bfloat16
#include GOP_TPL
#undef D
#endif
#define D float32
#include GOP_TPL
#undef D
#define D float64
#include GOP_TPL
#undef D
