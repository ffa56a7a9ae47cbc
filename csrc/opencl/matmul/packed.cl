/*
 * packed.cl - matmul for CPU devices: panels of rows of a and of columns of b, packed as they
 * are multiplied.
 *
 * A panel of b has LANES columns: a vector for each term, which meets ROWS numbers of a panel
 * of a. Their ROWS vectors of sums are the processor's registers. Terms are taken in PIECEs
 * that leave a panel of b in the first cache while a BLOCK of panels of a passes by, whose sums
 * wait in private memory. The real and the imaginary parts of complex numbers are vectors of
 * their own.
 */
#include "opencl/matmul/product.cl"

/* A piece of a panel a work-item: term after term the panel's numbers side by side, real parts,
 * then imaginary ones. Lines that do not exist are zeros. */
__kernel void matmul_pack_kernel(TO(SUM, to), FROM(BASE, x), const struct product p,
                                 const int is_b)
{
    const long all = is_b ? p.n : p.m, width = is_b ? LANES : ROWS;
    const long line_apart = is_b ? p.b_col : p.a_row, l_apart = is_b ? p.b_row : p.a_col;
    const long panels = (all + width - 1) / width, pieces = (p.k + PIECE - 1) / PIECE;
    const long panel = (long)get_global_id(0) / pieces;
    const long l0 = (long)get_global_id(0) % pieces * PIECE, end = min(l0 + PIECE, p.k);
    const struct at of = batch_at(&p, panel / panels);
    const long line = panel % panels * width;
    const int lines = (int)min(width, all - line);
    x += (x_at + (is_b ? of.b : of.a) + line * line_apart + l0 * l_apart) * PARTS;
    to += to_at + (panel * p.k + l0) * width * PARTS;
    for (long l = l0; l < end; l++, x += l_apart * PARTS, to += width * PARTS)
        for (int part = 0; part < PARTS; part++) {
            BASE number[LANES];
            SUM wide[LANES];
            for (int i = 0; i < LANES; i++)
                number[i] = x[(i < lines ? i : 0) * line_apart * PARTS + part];
            STORE(widened(LOAD(0, number)), 0, wide);
            for (int i = 0; i < width; i++)
                to[part * width + i] = i < lines ? wide[i] : (SUM)0;
        }
}

/* Some terms of ROWS rows and LANES columns, whose sums so far are at `sum`. */
static void multiply(S *sum, __global const SUM *a, __global const SUM *b, int terms)
{
    S own[ROWS * PARTS];
    UNROLLED for (int r = 0; r < ROWS * PARTS; r++) own[r] = sum[r];
    for (int l = 0; l < terms; l++, a += ROWS * PARTS, b += LANES * PARTS) {
        const S re = LOAD(0, b);
#if defined(COMPLEX)
        const S im = LOAD(1, b);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            const S a_re = (S)a[r], a_im = (S)a[ROWS + r];
            own[2 * r] = fma(-a_im, im, fma(a_re, re, own[2 * r]));
            own[2 * r + 1] = fma(a_im, re, fma(a_re, im, own[2 * r + 1]));
        }
#else
        UNROLLED for (int r = 0; r < ROWS; r++) own[r] = add_product((S)a[r], re, own[r]);
#endif
    }
    UNROLLED for (int r = 0; r < ROWS * PARTS; r++) sum[r] = own[r];
}

/* A row of sums, of `columns` that exist. */
static void put_row(__global BASE *out, long apart, const S *sum, int columns)
{
#if PARTS == 1
    if (columns == LANES && apart == 1) {
        STORE(rounded(*sum), 0, out);
        return;
    }
#endif
    for (int part = 0; part < PARTS; part++) {
        BASE number[LANES];
        STORE(rounded(sum[part]), 0, number);
        for (int c = 0; c < columns; c++) out[c * apart * PARTS + part] = number[c];
    }
}

__kernel void matmul_packed_kernel(TO(BASE, out), FROM(SUM, packed), const struct product p)
{
    const long a_panels = (p.m + ROWS - 1) / ROWS, b_panels = (p.n + LANES - 1) / LANES;
    const long blocks = (a_panels + BLOCK - 1) / BLOCK, number = (long)get_global_id(0);
    const long batch = number / (blocks * b_panels);
    const long block = number / b_panels % blocks * BLOCK, panel = number % b_panels;
    const int panels = (int)min((long)BLOCK, a_panels - block);
    const long of_a = ROWS * PARTS * p.k, of_b = LANES * PARTS * p.k; /* a panel */
    __global const SUM *a = packed + packed_at + (batch * a_panels + block) * of_a;
    __global const SUM *b =
        packed + packed_at + p.batches * a_panels * of_a + (batch * b_panels + panel) * of_b;
    S sum[BLOCK][ROWS * PARTS];
    for (int i = 0; i < panels; i++)
        for (int r = 0; r < ROWS * PARTS; r++) sum[i][r] = (S)0;
    for (long l = 0; l < p.k; l += PIECE)
        for (int i = 0; i < panels; i++)
            multiply(sum[i], a + i * of_a + l * ROWS * PARTS, b + l * LANES * PARTS,
                     (int)min((long)PIECE, p.k - l));
    const struct at of = batch_at(&p, batch);
    const int columns = (int)min((long)LANES, p.n - panel * LANES);
    out += (out_at + of.out + panel * LANES * p.out_col) * PARTS;
    for (long r = block * ROWS; r < min((block + panels) * ROWS, p.m); r++)
        put_row(out + r * p.out_row * PARTS, p.out_col,
                &sum[r / ROWS - block][r % ROWS * PARTS], columns);
}
