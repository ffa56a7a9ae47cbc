/*
 * parts.h - calls on host arrays, cut in parts: where the device's memory is too small, or
 * copies that are cast would leave the caches.
 */
#ifndef GOP_PARTS_H
#define GOP_PARTS_H

#include "core/core.h"

/* Runs a call for which the device had no memory in parts that fit. Where it cannot be cut, or
 * the smallest part does not fit: GOP_NO_DEVICE_MEMORY, with the sentence that there was. */
gop_status gop_run_parts(const gop_call *call, const gop_run_options *options) GOP_MUST_CHECK;

/* Whether a call on the host's own memory would make long copies of what it casts. Run in
 * halves, each a call of its own, it makes copies that stay in the caches. */
int gop_casts_much(const gop_call *call, const gop_run_options *options);
gop_status gop_run_halves(const gop_call *call, const gop_run_options *options) GOP_MUST_CHECK;

#endif
