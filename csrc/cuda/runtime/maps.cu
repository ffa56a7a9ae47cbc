/*
 * maps.cu - tensor maps: what TMA is told of an array whose tiles it copies.
 *
 * The driver writes a map; its function is looked up when the first one is asked for, so that
 * the library links with no driver. Maps of arrays that are met again are kept.
 */
#include <cuda.h>

#include "cuda/common/remembered.h"
#include "cuda/common/tma.h"
#include "cuda/runtime/runtime.h"

typedef decltype(&cuTensorMapEncodeTiled) encoder;

static gop_status find_encoder(encoder *found)
{
    static encoder kept;
    encoder known = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);
    if (!known) {
        cudaDriverEntryPointQueryResult result;
        void *function = NULL;
        GOP_TRY(
            gop_cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                            12000, cudaEnableDefault, &result),
                           "looking up cuTensorMapEncodeTiled"));
        if (!function)
            return gop_fail(GOP_REFUSED, "the driver has no cuTensorMapEncodeTiled, expected "
                                         "one of CUDA 12 or later");
        known = (encoder)function;
        __atomic_store_n(&kept, known, __ATOMIC_RELEASE);
    }
    *found = known;
    return GOP_OK;
}

static gop_status encode_map(gop_cuda_tensor_map *map, const gop_cuda_tensor *t)
{
    static_assert(sizeof(CUtensorMap) == sizeof *map, "a driver's map");
    const CUtensorMapDataType type = t->rounded     ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                     : t->item == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                     : t->item == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                                     : t->item == 8 ? CU_TENSOR_MAP_DATA_TYPE_UINT64
                                                    : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    encoder encode = NULL;
    GOP_TRY(find_encoder(&encode));
    cuuint64_t extents[3], strides[2];
    cuuint32_t box[3], each[3] = {1, 1, 1};
    for (int d = 0; d < 3; d++) {
        extents[d] = (cuuint64_t)t->extent[d];
        box[d] = (cuuint32_t)t->box[d];
        if (d > 0) strides[d - 1] = (cuuint64_t)t->stride[d] * (cuuint64_t)t->item;
    }
    const CUresult result =
        encode((CUtensorMap *)map, type, 3, t->data, extents, strides, box, each,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return GOP_OK;
    return gop_fail(GOP_INTERNAL,
                    "matmul: the driver made no tensor map of %lld x %lld x %lld items of %d "
                    "bytes: error %d",
                    (long long)t->extent[0], (long long)t->extent[1], (long long)t->extent[2],
                    t->item, (int)result);
}

/* All that a map says of an array. */
struct map_question {
    int64_t data, item, rounded, extent[3], stride[3], box[3];
};

gop_status gop_cuda_map(gop_cuda_tensor_map *map, const gop_cuda_tensor *t)
{
    static remembered<map_question, gop_cuda_tensor_map, 256> known;
    map_question q = {(int64_t)t->data, t->item, t->rounded, {}, {}, {}};
    for (int d = 0; d < 3; d++)
        q.extent[d] = t->extent[d], q.stride[d] = t->stride[d], q.box[d] = t->box[d];
    if (known.find(q, map)) return GOP_OK;
    GOP_TRY(encode_map(map, t));
    known.keep(q, *map);
    return GOP_OK;
}
