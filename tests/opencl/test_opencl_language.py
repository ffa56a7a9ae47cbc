"""What OpenCL C has of C and C++ has not, and its functions: sim gives what a device gives."""

from __future__ import annotations

import numpy as np
import pytest

import gpuops

pytestmark = pytest.mark.sampled(every=3)


def run(place, body, before="", count=8):
    o = np.arange(count, dtype="f4")
    gpuops.compile(f"{before}\nkernel void k(global float *o) {{ {body} }}", place)[1, 1](o)
    return o.tolist()


def test_parts_of_vectors_are_changed(place):
    """`v.xy *= 2` did not compile on sim."""
    body = """
    float4 v = (float4)(1, 2, 3, 4);
    v.xy *= 2; v.zw += (float2)(1, 2); v.lo -= v.hi; v.even /= 2.0f; v.odd += 1; v.wx -= v.xw;
    vstore4(v, 0, o);
    int4 i = (int4)(1, 2, 3, 4);
    i.xyz <<= 2; i.wx |= 1; i.zy ^= (int2)(3, 5); i.s01 %= 3; i.hi >>= 1; i.lo &= 7;
    vstore4(convert_float4(i), 1, o);
    float2 p = (float2)(3, 4);
    p.lo *= 3; p.yx += (float2)(1, 2);
    o[8] = p.x; o[9] = p.y;
    ((global float4 *)o)[0].xw *= 3;"""
    assert run(place, body, count=10) == [-24, -1, 2, 24, 2, 1, 7, 2, 11, 5]


def test_parts_are_stored_to(place):
    """Of the same vector (`v.yx = v` was wrong on sim), behind `->`, where a comma or a bracket
    ends the value, in a chain, and by capital letters."""
    before = "typedef struct { float4 p; float2 lo; } pair;"
    body = """
    float4 v = (float4)(1, 2, 3, 4), w = v, *q = &w;
    v.wzyx = v; o[0] = v.x * 10 + v.w; v.hi = v.lo; v.s32 = v.hi; o[1] = v.z * 10 + v.w;
    pair s, *r = &s;
    r->lo = (float2)(7, 8); r->lo.yx = r->lo; r->p = w; r->p.xy += r->lo;
    o[2] = r->lo.x * 10 + s.lo.y; o[3] = r->p.x * 10 + r->p.y;
    q->x += 1; q->xy = q->zw; q->hi *= 2; o[4] = w.x * 1000 + w.y * 100 + w.z * 10 + w.w;
    float2 a, b = (float2)(1, 2);
    if (v.x > 0) v.xy = b.yx, w.xy = b;
    for (int i = 0; i < 2; i++, v.xy = v.yx) v.zw = b;
    float4 c; c.xy = c.zw = a.yx = b;
    o[5] = v.x * 1000 + v.y * 100 + w.x * 10 + w.y; o[6] = c.x * 100 + c.w * 10 + a.x;
    c.S01 = c.S10; c.S3 = 9; o[7] = c.s3;"""
    assert run(place, body, before) == [41, 34, 87, 99, 3468, 2112, 122, 9]


def test_literals_of_vectors_are_constants(place):
    """`computed when the kernels are loaded`, sim said."""
    before = """
    constant float4 TABLE[2] = {(float4)(1, 2, 3, 4), (float4)(5)};
    constant int2 PAIR = (int2)(1, -2);
    constant float3 THREE = (float3)((float2)(1, 2), 3);"""
    body = """
    local float4 t;
    t = TABLE[0]; t.xy += TABLE[1].zw;
    o[0] = t.x; o[1] = TABLE[0].lo.y; o[2] = PAIR.y; o[3] = THREE.z;
    float4 v = shuffle(t, (uint4)(3, 2, 1, 0));
    prefetch(o, 4);
    o[4] = v.x;
    vstore2(shuffle2(t, v, (uint2)(4, 3)), 0, o + 5);"""
    assert run(place, body, before)[:7] == [6, 2, -2, 3, 4, 4, 4]


def test_members_with_names_of_parts(place):
    """`lo`, `xy` and `seed` of a structure were taken for parts of a vector."""
    before = """
    typedef struct { float lo, hi; uint seed; float xx, xy[2], s0; } range;
    struct both { range r; float4 v; int even; };
    float wide(range *r) { (*r).lo += 1; return r->lo + r->hi; }"""
    body = """
    range r = {1, 2, 3, 4, {5, 6}, 7}, a[2];
    r.lo *= 2; r.hi = 9; r.seed = r.seed * 5 + 1; r.xy[1] += r.xx; r.s0++;
    float4 v = (float4)(1, 2, 3, 4);
    v.lo = v.hi; v.xy += 1;
    struct both b;
    b.r = r; b.v = v; b.even = 3; b.v.even = (float2)(7, 8);
    a[1] = r; a[1].lo = 4;
    o[0] = r.lo + r.hi; o[1] = r.seed; o[2] = r.xy[1] + r.s0;
    o[3] = b.r.lo + b.v.lo.x + b.even;
    o[4] = a[1].lo; o[5] = wide(&r); o[6] = v.x * 10 + v.y; o[7] = b.v.x + b.v.z;"""
    assert run(place, body, before) == [11, 16, 18, 12, 4, 12, 45, 15]


def test_enumerations_are_integers(place):
    before = """
    enum color { RED, GREEN };
    typedef enum tag { A = 3,
        B } letter;
    letter next(letter x) { return x == A ? B : 0; }"""
    body = """
    enum color c = 1; c++;
    letter l = next(3); l |= 8; l = l + 1;
    enum { P, Q } p = Q; p++;
    switch (c) { case RED: o[3] = 0; break; default: o[3] = 9; }
    o[0] = c; o[1] = l; o[2] = p; o[4] = c - 3 < RED;"""
    assert run(place, body, before)[:5] == [2, 13, 2, 9, 0]
    below = "enum e { LOW = -1, NIL };"
    assert run(place, "enum e x = 0; o[0] = x - 1 < LOW + 1;", below)[0] == 1


def test_comparisons_are_ints(place):
    body = """
    int i = 5;
    o[0] = select(1, 2, i > 3); o[1] = any(i > 3); o[2] = all(-i); o[3] = select(1u, 2u, i < 3);
    __attribute__((opencl_unroll_hint(2)))
    for (int j = 0; j < 3; j++) o[4] += j;"""
    assert run(place, body)[:5] == [2, 0, 1, 1, 7]


FUNCTIONS = {
    "pown(f, -3)": 0.7**-3, "pown(-f, 3)": -(0.7**3), "rootn(f, 3)": 0.7 ** (1 / 3),
    "rootn(-8.0f, 3)": -2, "rootn(16.0f, -4)": 0.5, "maxmag(f, g)": -1.3, "minmag(f, g)": 0.7,
    "maxmag(-1.0f, 1.0f)": 1, "isordered(f, g)": 1, "isordered(f, nan(0u))": 0,
    "isnan(nan(1u))": 1, "fract(g, &h) * 10 + h": 5, "sincos(f, &h) * 10 + h":
    np.sin(0.7) * 10 + np.cos(0.7), "tanpi(f)": np.tan(0.7 * np.pi), "asinpi(f)":
    np.arcsin(0.7) / np.pi, "acospi(f)": np.arccos(0.7) / np.pi, "atanpi(f)":
    np.arctan(0.7) / np.pi, "atan2pi(g, f)": np.arctan2(-1.3, 0.7) / np.pi,
    "bitselect(5, 10, 12)": 9, "mad_hi(1 << 30, 8, 3)": 5, "mad_sat(1 << 30, 8, 3)": 2147483647,
    "mad_sat(3, 8, -30)": -6, "mad_sat(1u << 31, 8u, 3u)": 4294967295,
    "upsample((short)-1, (ushort)2)": -65534, "upsample((uchar)1, (uchar)2)": 258,
    "native_exp10(f)": 10**0.7, "half_recip(f)": 1 / 0.7, "half_divide(g, f)": -1.3 / 0.7,
    "half_powr(f, 2.0f)": 0.49, "fast_length((float2)(3, 4))": 5,
    "fast_distance((float2)(3, 4), (float2)(0, 0))": 5,
    "fast_normalize((float2)(3, 4)).y": 0.8, "maxmag((float2)(1, -2), (float2)(-3, 1)).y": -2,
}  # fmt: skip


def test_more_functions(place):
    """sim had none of them; of nan(0u) it said that memory was touched which is not there."""
    body = "".join(f"h = 0; o[{i}] = {call}; " for i, call in enumerate(FUNCTIONS))
    made = run(place, f"float f = 0.7f, g = -1.3f, h; {body}", count=len(FUNCTIONS))
    np.testing.assert_allclose(made, list(FUNCTIONS.values()), rtol=1e-3)
