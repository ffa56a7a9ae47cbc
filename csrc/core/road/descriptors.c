/*
 * descriptors.c - finds an operation by its number; no other file of the road knows the list.
 */
#include "core/core.h"

#define GOP_OP(name, stem) extern const gop_descriptor gop_describe_##name;
#include "ops.def"
#undef GOP_OP

const gop_descriptor *gop_descriptor_of(gop_op op)
{
    static const gop_descriptor *const table[] = {
#define GOP_OP(name, stem) &gop_describe_##name,
#include "ops.def"
#undef GOP_OP
    };
    return table[op];
}

const char *gop_call_name(const gop_call *call)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    return op->called ? op->called(call) : op->name;
}
