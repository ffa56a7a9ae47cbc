"""course_right - unusual right solutions of the course's exercises, which get all points.

By exercise: (what is unusual, the source).
"""

RIGHT = {
    "02": [
        ("float4 loads", """
__global__ void lengths(const float *p, float *out, int n)
{
    __shared__ float4 s[192];
    int t = threadIdx.x, first = 768 * blockIdx.x, left = min(768, 3 * n - first);
    if (4 * t + 3 < left) s[t] = ((const float4 *)(p + first))[t];
    else if (4 * t < left)
        for (int k = 4 * t; k < left; k++) ((float *)s)[k] = p[first + k];
    __syncthreads();
    const float *q = (const float *)s + 3 * t;
    if (3 * t < left) out[256 * blockIdx.x + t] = q[0] * q[0] + q[1] * q[1] + q[2] * q[2];
}
"""),
        ("shuffles, no shared memory", """
__global__ void lengths(const float *p, float *out, int n)
{
    int t = threadIdx.x, lane = t % 32, first = 768 * blockIdx.x + 96 * (t / 32);
    float r[3], got[3];
    for (int k = 0; k < 3; k++) {
        int at = first + 32 * k + lane;
        r[k] = at < 3 * n ? p[at] : 0;
    }
    for (int c = 0; c < 3; c++) {
        int at = 3 * lane + c;
        float a = __shfl_sync(0xffffffffu, r[0], at % 32);
        float b = __shfl_sync(0xffffffffu, r[1], at % 32);
        float d = __shfl_sync(0xffffffffu, r[2], at % 32);
        got[c] = at < 32 ? a : at < 64 ? b : d;
    }
    int i = 256 * blockIdx.x + t;
    if (i < n) out[i] = got[0] * got[0] + got[1] * got[1] + got[2] * got[2];
}
"""),
        ("warps of their own, __syncwarp", """
__global__ void lengths(const float *p, float *out, int n)
{
    __shared__ float all[8][96];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float *s = all[warp];
    int first = (blockIdx.x * 8 + warp) * 96;
    for (int k = 0; k < 96; k += 32)
        if (first + k + lane < 3 * n) s[k + lane] = __ldg(p + first + k + lane);
    __syncwarp();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = s[3 * lane] * s[3 * lane];
        sum += s[3 * lane + 1] * s[3 * lane + 1];
        sum += s[3 * lane + 2] * s[3 * lane + 2];
        out[i] = sum;
    }
}
"""),
    ],
    "03": [
        ("a flat tile, blocks as lines of 256 threads", """
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float s[33 * 32];
    int id = threadIdx.y * 32 + threadIdx.x;
    int x0 = blockIdx.x * 32, y0 = blockIdx.y * 32;
    for (int k = id; k < 1024; k += 256) {
        int r = k / 32, c = k % 32;
        if (y0 + r < n && x0 + c < n) s[33 * r + c] = in[(y0 + r) * n + x0 + c];
    }
    __syncthreads();
    for (int k = id; k < 1024; k += 256) {
        int r = k / 32, c = k % 32;
        if (x0 + r < n && y0 + c < n) out[(x0 + r) * n + y0 + c] = s[33 * c + r];
    }
}
"""),
        ("shuffles in one warp, no shared memory", """
__global__ void transpose(const float *in, float *out, int n)
{
    if (threadIdx.y) return;
    int l = threadIdx.x, x = blockIdx.x * 32, y = blockIdx.y * 32;
    float r[32];
    for (int k = 0; k < 32; k++) r[k] = y + k < n && x + l < n ? in[(y + k) * n + x + l] : 0.0f;
    for (int d = 1; d < 32; d *= 2)
        for (int k = 0; k < 32; k++)
            if (!(k & d)) {
                float give = l & d ? r[k] : r[k + d];
                float got = __shfl_xor_sync(0xffffffffu, give, d);
                if (l & d) r[k] = got; else r[k + d] = got;
            }
    for (int k = 0; k < 32; k++)
        if (x + k < n && y + l < n) out[(x + k) * n + y + l] = r[k];
}
"""),
        ("float4 where rows allow it", """
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][33];
    int id = threadIdx.y * 32 + threadIdx.x, r = id / 8, c = id % 8 * 4;
    int x = blockIdx.x * 32, y = blockIdx.y * 32;
    if (y + r < n) {
        if (n % 4 == 0) {
            if (x + c < n) {
                float4 v = *(const float4 *)(in + (y + r) * n + x + c);
                tile[r][c] = v.x, tile[r][c + 1] = v.y;
                tile[r][c + 2] = v.z, tile[r][c + 3] = v.w;
            }
        } else
            for (int k = c; k < c + 4 && x + k < n; k++) tile[r][k] = in[(y + r) * n + x + k];
    }
    __syncthreads();
    if (x + r >= n) return;
    if (n % 4 == 0) {
        if (y + c < n)
            *(float4 *)(out + (x + r) * n + y + c)
                = make_float4(tile[c][r], tile[c + 1][r], tile[c + 2][r], tile[c + 3][r]);
    } else
        for (int k = c; k < c + 4 && y + k < n; k++) out[(x + r) * n + y + k] = tile[k][r];
}
"""),
    ],
    "04": [
        ("rotated instead of swizzled", """
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 32 + tx, y = blockIdx.y * 32 + ty;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) tile[ty + j][(tx + ty + j) % 32] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + tx, y = blockIdx.x * 32 + ty;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[(y + j) * n + x] = tile[tx][(ty + j + tx) & 31];
}
"""),
        ("a flat tile, places by bits", """
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float s[1024];
    for (int r = threadIdx.y; r < 32; r += 8) {
        int x = blockIdx.x << 5 | threadIdx.x, y = blockIdx.y << 5 | r;
        if (x < n && y < n) s[r << 5 | (threadIdx.x ^ r)] = in[y * n + x];
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) {
        int x = blockIdx.y << 5 | threadIdx.x, y = blockIdx.x << 5 | r;
        if (x < n && y < n) out[y * n + x] = s[threadIdx.x << 5 | (threadIdx.x ^ r)];
    }
}
"""),
    ],
    "05": [
        ("__reduce_add_sync", """
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int all;
    int mine = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 4096) mine += v[i];
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    mine = __reduce_add_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0) atomicAdd(&all, mine);
    __syncthreads();
    if (threadIdx.x == 0) part[blockIdx.x] = all;
}
"""),
        ("int4, the rest one by one", """
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, g = blockIdx.x * 256 + t, mine = 0;
    const int4 *q = (const int4 *)v;
    for (int i = g; i < n / 4; i += 4096) {
        int4 a = q[i];
        mine += a.x + a.y + a.z + a.w;
    }
    if (g < n % 4) mine += v[n / 4 * 4 + g];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 16; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t >= 32) return;
    mine = s[t];
    for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffffu, mine, d);
    if (t == 0) part[blockIdx.x] = mine;
}
"""),
        ("the last warp meets by __syncwarp", """
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    unsigned mine = 0;
    const int *end = v + n;
    for (const int *at = v + blockIdx.x * 256 + t; at < end; at += 4096) mine += *at;
    s[t] = mine;
    __syncthreads();
    if (t < 128) s[t] += s[t + 128];
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 32) {
        for (int d = 32; d > 0; d /= 2) {
            int other = t < d ? s[t + d] : 0;
            __syncwarp();
            if (t < d) s[t] += other;
            __syncwarp();
        }
        if (t == 0) part[blockIdx.x] = s[0];
    }
}
"""),
    ],
    "05b": [
        ("the whole last block", """
__global__ void sum(const int *v, int *part, unsigned *ticket, int *out, int n)
{
    __shared__ int s[256];
    __shared__ bool last;
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(ticket, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    s[t] = t < gridDim.x ? part[t] : 0;
    __syncthreads();
    for (int d = 8; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) out[0] = s[0];
}
"""),
        ("atomicInc and shuffles", """
__global__ void sum(const int *v, int *part, unsigned *ticket, int *out, int n)
{
    __shared__ int s[8];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(~0u, mine, d);
    if (t % 32 == 0) s[t / 32] = mine;
    __syncthreads();
    if (t >= 32) return;
    mine = t < 8 ? s[t] : 0;
    for (int d = 4; d > 0; d /= 2) mine += __shfl_down_sync(~0u, mine, d);
    unsigned drawn = 0;
    if (t == 0) {
        part[blockIdx.x] = mine;
        __threadfence();
        drawn = atomicInc(ticket, gridDim.x - 1);
    }
    drawn = __shfl_sync(~0u, drawn, 0);
    if (drawn != gridDim.x - 1) return;
    __threadfence();
    mine = t < gridDim.x ? part[t] : 0;
    for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(~0u, mine, d);
    if (t == 0) *out = mine;
}
"""),
        ("__syncthreads_or", """
__global__ void sum(const int *v, int *part, unsigned *ticket, int *out, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    int last = 0;
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(ticket, 1u) + 1 == gridDim.x;
    }
    if (__syncthreads_or(last) && t == 0) {
        int all = 0;
        for (int b = 0; b < gridDim.x; b++) all += ((volatile int *)part)[b];
        out[0] = all;
    }
}
"""),
    ],
    "11": [
        ("points by tiles, float3", """
__global__ void pairs(const float *p, int *h, int n, float width)
{
    __shared__ float3 tile[128];
    __shared__ unsigned mine[64];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    if (t < 64) mine[t] = 0;
    float3 a = i < n ? ((const float3 *)p)[i] : make_float3(0, 0, 0);
    for (int first = blockIdx.x * 128; first < n; first += 128) {
        if (first + t < n) tile[t] = ((const float3 *)p)[first + t];
        __syncthreads();
        for (int k = 0; k < 128; k++) {
            int j = first + k;
            if (i >= n || j >= n || j <= i) continue;
            float3 b = tile[k];
            float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
            int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width);
            if (bin < 64) atomicAdd(&mine[bin], 1u);
        }
        __syncthreads();
    }
    if (t < 64) atomicAdd(&h[t], (int)mine[t]);
}
"""),
        ("a histogram a thread, without atomics in shared memory", """
__global__ void pairs(const float *p, int *h, int n, float width)
{
    __shared__ unsigned short mine[64][128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    for (int k = 0; k < 64; k++) mine[k][t] = 0;
    for (int j = i + 1; j < n; j++) {
        float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1];
        float dz = p[3 * j + 2] - p[3 * i + 2];
        int bin = sqrtf(dx * dx + dy * dy + dz * dz) / width;
        if (bin < 64) mine[bin][t]++;
    }
    __syncthreads();
    if (t < 64) {
        int sum = 0;
        for (int k = 0; k < 128; k++) sum += mine[t][(k + t) % 128];
        atomicAdd(&h[t], sum);
    }
}
"""),
        ("lanes that want one bin add together", """
__global__ void pairs(const float *p, int *h, int n, float width)
{
    __shared__ int mine[64];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    if (t < 64) mine[t] = 0;
    __syncthreads();
    for (int j = 1; j < n; j++) {
        int bin = 64;
        if (i < j) {
            float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1];
            float dz = p[3 * j + 2] - p[3 * i + 2];
            bin = min(64, (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width));
        }
        unsigned same = __match_any_sync(~0u, bin);
        if (bin < 64 && __ffs(same) - 1 == t % 32) atomicAdd(&mine[bin], __popc(same));
    }
    __syncthreads();
    if (t < 64) atomicAdd(&h[t], mine[t]);
}
"""),
    ],
}  # fmt: skip
RIGHT["04"].append(RIGHT["03"][1])  # without shared memory there are no banks
