/*
 * outputs.h - the outputs of a call.
 */
#ifndef GOP_OUTPUTS_H
#define GOP_OUTPUTS_H

#include "core/core.h"

/* The outputs given are the outputs inferred, or a sentence. */
gop_status gop_check_outputs(const gop_call *call) GOP_MUST_CHECK;

#endif
