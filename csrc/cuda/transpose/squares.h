/*
 * squares.h - squares of 4 by 4 items of 1 and 2 bytes, from memory into a box of shared
 * memory.
 *
 * Stores of single small items are bound by instructions. So a thread reads 4 items of each of
 * 4 lines that are neighbours in the output, transposes them in registers, and stores 4 items
 * at once.
 */
#ifndef GOP_CUDA_TRANSPOSE_SQUARES_H
#define GOP_CUDA_TRANSPOSE_SQUARES_H

#include "cuda/transpose/boxes.h"
#include "cuda/transpose/turn.h"

/* Fills the tables of squares. A square starts where its first row does in the lines around it:
 * both are found once and added up, `room` has them until then. */
template <typename T, typename P>
GOP_DEVICE void place_squares(const square_starts &squares, const P &p, char *room)
{
    const int around = (int)quotient((uint32_t)p.lines, p.squares);
    int2 *const around_at = reinterpret_cast<int2 *>(room);
    int32_t *const row_at = reinterpret_cast<int32_t *>(around_at + around);
    for (int i = threadIdx.x; i < around + p.rows; i += BOX_THREADS) {
        const bool is_row = i >= around;
        const line_start s = line_read(p, is_row ? i - around : i * p.rows);
        if (is_row) row_at[i - around] = (int32_t)s.at;
        else around_at[i] = make_int2((int32_t)s.at, s.place);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.lines; i += BOX_THREADS) {
        const int outer = (int)quotient((uint32_t)i, p.squares);
        const int first = SIDE * (i - outer * (int)p.squares.d), last = p.rows - 1;
        const int2 s = around_at[outer];
        int32_t at[SIDE];
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            at[j] = s.x + row_at[first + j < last ? first + j : last];
        squares.at[i] = make_int4(at[0], at[1], at[2], at[3]);
        const int there = p.rows - first < SIDE ? p.rows - first : SIDE;
        squares.place[i] = (uint32_t)(s.y + first * (int)sizeof(T)) | (uint32_t)there << 16;
    }
}

/* How a thread reads items of a line: words that lie at multiples of 4 bytes; words at any
 * address, from that before them to that behind them; or the items one by one, at the ends of
 * the input. */
enum square_reads { WHOLE_WORDS, SHIFTED_WORDS, ITEMS };

/* SIDE items of a line, `shift` bits behind the beginning of a word. */
template <typename T, square_reads READS> struct square_row {
    enum { WORDS = (int)sizeof(T), READ = WORDS + (READS == SHIFTED_WORDS) };
    uint32_t word[READ];
    uint32_t shift; /* in bits, of which a word's 32 count */

    GOP_DEVICE void fetch(const uint32_t *in, int32_t bytes)
    {
        if constexpr (READS == ITEMS) {
            enum { PER_WORD = 4 / (int)sizeof(T) };
            const T *const items =
                reinterpret_cast<const T *>(reinterpret_cast<const char *>(in) + bytes);
#pragma unroll
            for (int k = 0; k < SIDE; k++) {
                const uint32_t item = items[k];
                if (k % PER_WORD == 0) word[k / PER_WORD] = item;
                else word[k / PER_WORD] |= item << 8 * (int)sizeof(T) * (k % PER_WORD);
            }
        } else {
            const uint32_t *const from = in + (bytes >> 2);
            shift = (uint32_t)bytes * 8;
#pragma unroll
            for (int k = 0; k < READ; k++) word[k] = from[k];
        }
    }

    GOP_DEVICE uint32_t operator[](int k) const
    {
        if constexpr (READS == SHIFTED_WORDS)
            return __funnelshift_r(word[k], word[k + 1], shift);
        else return word[k];
    }
};

/* Rows become columns. */
GOP_DEVICE void turn_square(uint32_t (&r)[SIDE][1])
{
    uint32_t words[SIDE] = {r[0][0], r[1][0], r[2][0], r[3][0]};
    turn_words(words);
#pragma unroll
    for (int k = 0; k < SIDE; k++) r[k][0] = words[k];
}
GOP_DEVICE void turn_square(uint32_t (&r)[SIDE][2])
{
    uint32_t t[SIDE][2];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t words[2] = {r[2 * j][i], r[2 * j + 1][i]};
            turn_words(words);
            t[2 * i][j] = words[0], t[2 * i + 1][j] = words[1];
        }
#pragma unroll
    for (int k = 0; k < SIDE; k++)
#pragma unroll
        for (int j = 0; j < 2; j++) r[k][j] = t[k][j];
}

template <typename P, bool TURNS>
GOP_DEVICE void store_in_box(char *box, int at, int turn, uint32_t value)
{
    *reinterpret_cast<P *>(box + (TURNS ? turned_place(at, turn) : at)) = (P)value;
}

/* Stores a column of a square at any place. EVEN: the place is a multiple of 4 bytes. */
template <bool EVEN, bool TURNS, int WORDS>
GOP_DEVICE void store_column(char *box, int at, int turn, const uint32_t (&v)[WORDS])
{
    if (EVEN || at % 4 == 0) {
#pragma unroll
        for (int k = 0; k < WORDS; k++)
            store_in_box<uint32_t, TURNS>(box, at + 4 * k, turn, v[k]);
    } else if (WORDS == 2 || at % 2 == 0) {
        store_in_box<uint16_t, TURNS>(box, at, turn, v[0]);
        if constexpr (WORDS == 2)
            store_in_box<uint32_t, TURNS>(box, at + 2, turn, __funnelshift_r(v[0], v[1], 16));
        store_in_box<uint16_t, TURNS>(box, at + 4 * WORDS - 2, turn, v[WORDS - 1] >> 16);
    } else {
        store_in_box<uint8_t, TURNS>(box, at, turn, v[0]);
        store_in_box<uint16_t, TURNS>(box, at + 1, turn, v[0] >> 8);
        store_in_box<uint8_t, TURNS>(box, at + 3, turn, v[0] >> 24);
    }
}

/* Stores the first items of a column, fewer than SIDE. */
template <typename T> GOP_DEVICE void store_items_of(char *box, int at, int turn,
                                                     const uint32_t (&v)[sizeof(T)], int count)
{
    enum { PER_WORD = 4 / (int)sizeof(T) };
#pragma unroll
    for (int k = 0; k < SIDE - 1; k++)
        if (k < count)
            store_in_box<T, true>(box, at + k * (int)sizeof(T), turn,
                                  v[k / PER_WORD] >> 8 * (int)sizeof(T) * (k % PER_WORD));
}

/* N squares of a thread, `step` apart; all loads are issued before any result is used. */
template <typename T, square_reads READS, bool EVEN, bool TURNS, int N>
GOP_DEVICE void load_some_squares(char *box, const uint32_t *in, int32_t bytes,
                                  const square_starts &squares, int first, int step,
                                  const int *place, int turn)
{
    enum { WORDS = (int)sizeof(T) };
    square_row<T, READS> v[N][SIDE];
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int4 at = squares.at[first + k * step];
        v[k][0].fetch(in, bytes + at.x);
        v[k][1].fetch(in, bytes + at.y);
        v[k][2].fetch(in, bytes + at.z);
        v[k][3].fetch(in, bytes + at.w);
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        const uint32_t both = squares.place[first + k * step];
        const int start = (int)(both & 0xffff), there = (int)(both >> 16);
        uint32_t square[SIDE][WORDS];
#pragma unroll
        for (int j = 0; j < SIDE; j++)
#pragma unroll
            for (int w = 0; w < WORDS; w++) square[j][w] = v[k][j][w];
        turn_square(square);
        if (there >= SIDE) {
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                store_column<EVEN, TURNS>(box, start + place[j], turn, square[j]);
        } else {
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                store_items_of<T>(box, start + place[j], turn, square[j], there);
        }
    }
}

template <typename T, square_reads READS, bool EVEN, bool TURNS, typename P>
GOP_DEVICE void load_squares(char *box, const char *in, const square_starts &squares,
                             const P &p, box_word<SIDE> word, int ahead)
{
    const int wide = box_width(p), high = BOX_THREADS / wide, turn = p.turn;
    const int row = (int)threadIdx.x / wide, odd = (int)((uintptr_t)in % 4);
    const uint32_t *const words = reinterpret_cast<const uint32_t *>(in - odd);
    if (row >= high) return;
#pragma unroll 1
    for (int w = (int)threadIdx.x - row * wide; w < p.wide; w += wide) {
        if (p.wide > BOX_THREADS) word = word_of_line<SIDE>(p, w);
        const int32_t bytes = odd + (int32_t)word.at;
        int place[SIDE], k = row;
#pragma unroll
        for (int j = 0; j < SIDE; j++) place[j] = word.place[j] + ahead;
#pragma unroll 1
        for (; k + high < p.lines; k += 2 * high)
            load_some_squares<T, READS, EVEN, TURNS, 2>(box, words, bytes, squares, k, high,
                                                        place, turn);
        if (k < p.lines)
            load_some_squares<T, READS, EVEN, TURNS, 1>(box, words, bytes, squares, k, high,
                                                        place, turn);
    }
}

template <typename T, square_reads READS, typename P>
GOP_DEVICE void load_squares_to(char *box, const char *in, const square_starts &squares,
                                const P &p, const box_word<SIDE> &word, int ahead)
{
    if (p.even_out && ahead % 4 == 0)
        load_squares<T, READS, true, true>(box, in, squares, p, word, ahead);
    else if (p.turn) load_squares<T, READS, false, true>(box, in, squares, p, word, ahead);
    else load_squares<T, READS, false, false>(box, in, squares, p, word, ahead);
}

/* is_inner: the words around those that are read lie in the input. */
template <typename T, typename P>
GOP_DEVICE void load_in_squares(char *box, const char *in, const square_starts &squares,
                                const P &p, const box_word<SIDE> &word, int ahead,
                                bool is_inner)
{
    if (p.even_in && (uintptr_t)in % 4 == 0)
        load_squares_to<T, WHOLE_WORDS>(box, in, squares, p, word, ahead);
    else if (is_inner) load_squares_to<T, SHIFTED_WORDS>(box, in, squares, p, word, ahead);
    else load_squares<T, ITEMS, false, true>(box, in, squares, p, word, ahead);
}

#endif
