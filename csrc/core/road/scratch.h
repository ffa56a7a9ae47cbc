/*
 * scratch.h - scratch memory of a call, which its context keeps for the next one.
 */
#ifndef GOP_CORE_SCRATCH_H
#define GOP_CORE_SCRATCH_H

#include "core/core.h"

/* Memory for a call; `in_order`: its work follows, and is followed by, that of all calls whose
 * scratch memory is kept. */
gop_status gop_scratch_take(gop_ctx *ctx, size_t bytes, int in_order, void **memory);
/* Hands it back once the call's work is enqueued. */
void gop_scratch_give(gop_ctx *ctx, void *memory);

#endif
