/*
 * each_dtype.h - includes the template named by GOP_TPL once per dtype; no guard, on purpose.
 */
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
#define D int32
#include GOP_TPL
#undef D
#define D float16
#include GOP_TPL
#undef D
#define D bfloat16
#include GOP_TPL
#undef D
#define D float32
#include GOP_TPL
#undef D
#define D float64
#include GOP_TPL
#undef D
