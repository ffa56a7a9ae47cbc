/*
 * matmul_kernel_tpl.h - the inner loop of matmul for one packed type; no guard, on purpose.
 *
 * Define P (the word of the packed type), P_SCALAR, P_COMPLEX and P_MADD(a, b, c), where a is a
 * scalar, before including. A panel of a holds, for each l, `rows` scalars; a panel of b holds
 * NR; complex panels hold the real parts, then the imaginary ones.
 */
#define PFN(name) GOP_PASTE(name, P)
#define P_VECTOR PFN(packed_vector)
#define P_PLANES (P_COMPLEX ? 2 : 1)

typedef P_SCALAR PFN(packed);
typedef P_SCALAR P_VECTOR __attribute__((vector_size(VECTOR)));

enum {
    PFN(MR) = P_COMPLEX ? COMPLEX_ROWS : ROWS,
    PFN(NV) = P_COMPLEX ? COMPLEX_VECTORS : 2,
    PFN(NR) = PFN(NV) * VECTOR / (int)sizeof(P_SCALAR),
};

/* c = a b for kc values of l, or c + a b where c holds the sum of earlier blocks. */
static inline __attribute__((always_inline)) void
PFN(multiply_rows)(const int rows, int64_t kc, const P_SCALAR *restrict a,
                   const P_SCALAR *restrict b, P_SCALAR *restrict c, int is_first)
{
    P_VECTOR re[PFN(MR)][PFN(NV)];
#if P_COMPLEX
    P_VECTOR im[PFN(MR)][PFN(NV)];
#endif
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < PFN(NV); v++) {
            re[i][v] = (P_VECTOR){0};
#if P_COMPLEX
            im[i][v] = (P_VECTOR){0};
#endif
        }
    for (int64_t l = 0; l < kc; l++) {
        const P_VECTOR *b_re = (const P_VECTOR *)b;
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int v = 0; v < PFN(NV); v++) {
                re[i][v] = P_MADD(a[i], b_re[v], re[i][v]);
#if P_COMPLEX
                const P_VECTOR *b_im = b_re + PFN(NV);
                re[i][v] = P_MADD(-a[rows + i], b_im[v], re[i][v]);
                im[i][v] = P_MADD(a[i], b_im[v], im[i][v]);
                im[i][v] = P_MADD(a[rows + i], b_re[v], im[i][v]);
#endif
            }
        a += P_PLANES * rows;
        b += P_PLANES * PFN(NR);
    }
    P_VECTOR *sum = (P_VECTOR *)c;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < PFN(NV); v++) {
            P_VECTOR *s = &sum[i * PFN(NV) + v];
            *s = is_first ? re[i][v] : P_ADD(*s, re[i][v]);
#if P_COMPLEX
            s += rows * PFN(NV);
            *s = is_first ? im[i][v] : P_ADD(*s, im[i][v]);
#endif
        }
}

/* Thin products take thin panels, else nearly all of a panel would be padding. */
static void PFN(multiply)(int rows, int64_t kc, const P_SCALAR *a, const P_SCALAR *b,
                          P_SCALAR *c, int is_first)
{
    if (rows == 1) PFN(multiply_rows)(1, kc, a, b, c, is_first);
    else if (rows == 4) PFN(multiply_rows)(4, kc, a, b, c, is_first);
    else PFN(multiply_rows)(PFN(MR), kc, a, b, c, is_first);
}

#undef PFN
#undef P_VECTOR
#undef P_PLANES
#undef P
#undef P_SCALAR
#undef P_COMPLEX
#undef P_MADD
#undef P_ADD
