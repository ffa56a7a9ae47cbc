/*
 * rules.c - how accesses of a warp become transactions and bank conflicts, by compute
 * capability.
 *
 * Source: the CUDA C Programming Guide (appendix "Compute Capabilities" of 4.2 for 1.x and
 * 2.x). docs/sim.md says where other sources differ.
 */
#include "sim/rules.h"

const gop_sim_rules gop_sim_rules_of[GOP_SIM_DEVICES] = {
    {.name = "",
     .major = 9,
     .together = {32, 32, 32, 32, 32},
     .segment = {32, 32, 32, 32, 32},
     .banks = 32,
     .sharing = {32, 32, 32, 16, 8},
     .pairs = 1},
    {.name = "cc10", /* partitions and sizes of a GeForce 8800 GTX */
     .major = 1,
     .together = {16, 16, 16, 16, 16},
     .segment = {32, 32, 64, 128, 128},
     .in_order = 1,
     .banks = 16,
     .sharing = {16, 16, 16, 16, 16},
     .partitions = 6,
     .processors = 16,
     .blocks = 8,
     .threads = 768,
     .shared = 16 * 1024,
     .most = 512},
    {.name = "cc13", /* partitions and sizes of a GeForce GTX 280 */
     .major = 1,
     .minor = 3,
     .together = {16, 16, 16, 16, 16},
     .segment = {32, 64, 128, 128, 128},
     .shrinks = 1,
     .banks = 16,
     .sharing = {16, 16, 16, 16, 16},
     .partitions = 8,
     .processors = 30,
     .blocks = 8,
     .threads = 1024,
     .shared = 16 * 1024,
     .most = 512},
    {.name = "cc20",
     .major = 2,
     .together = {32, 32, 32, 16, 8},
     .segment = {128, 128, 128, 128, 128},
     .banks = 32,
     .sharing = {32, 32, 32, 16, 8}},
};

static int width_of(int bytes)
{
    return bytes <= 1 ? 0 : bytes <= 2 ? 1 : bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4;
}

/* The index of the first active lane of the request, from `first` on, that is at or after warp
 * lane `end`. */
static int until(const gop_sim_request *r, int first, int end)
{
    while (first < r->count && r->lane[first] < end) first++;
    return first;
}

/* ---- global memory ---- */

/* Adds a lane's bytes to the segments pieces[from] to pieces[end - 1], with new ones if needed.
 * Returns the new end. */
static int touch(gop_sim_piece *pieces, int from, int end, uintptr_t at, int bytes, int segment)
{
    for (int done = 0; done < bytes;) { /* one step, unless the address is misaligned */
        const uintptr_t byte = at + (uintptr_t)done, base = byte & ~(uintptr_t)(segment - 1);
        const int offset = (int)(byte % GOP_SIM_SECTOR), sector = (int)(byte - base) / 32;
        const int left = bytes - done, room = GOP_SIM_SECTOR - offset;
        const int taken = left < room ? left : room;
        int i = end - 1; /* neighbours often share a segment: search from the last one */
        while (i >= from && pieces[i].address != base) i--;
        if (i < from) {
            i = end++;
            pieces[i] = (gop_sim_piece){base, segment, {0, 0, 0, 0}};
        }
        pieces[i].used[sector] |= (uint32_t)(((uint64_t)1 << taken) - 1) << offset;
        done += taken;
    }
    return end;
}

/* Halves a piece of 128 or 64 bytes while only one half of it is used. */
static void shrink(gop_sim_piece *piece)
{
    while (piece->bytes > GOP_SIM_SECTOR) {
        const int half = piece->bytes / 2 / GOP_SIM_SECTOR; /* in sectors */
        uint32_t low = 0, high = 0;
        for (int s = 0; s < half; s++) low |= piece->used[s], high |= piece->used[half + s];
        if (low && high) return;
        piece->bytes /= 2;
        if (high) piece->address += (uintptr_t)piece->bytes;
        for (int s = 0; high && s < half; s++) piece->used[s] = piece->used[half + s];
    }
}

/* Whether lanes [first, end) of one half warp access consecutive words in lane order, from the
 * start of a segment. */
static int are_in_order(const gop_sim_request *r, int first, int end, int segment)
{
    const uintptr_t bytes = (uintptr_t)r->bytes;
    const uintptr_t start = r->at[first] - (uintptr_t)(r->lane[first] % 16) * bytes;
    if (r->bytes < 4 || start % (uintptr_t)segment != 0) return 0;
    for (int i = first; i < end; i++)
        if (r->at[i] != start + (uintptr_t)(r->lane[i] % 16) * bytes) return 0;
    return 1;
}

/* The number of full segments that would hold the used bytes of these pieces. */
static int filled_pieces(const gop_sim_piece *pieces, int from, int end, int segment)
{
    int bytes = 0;
    for (int i = from; i < end; i++)
        for (int s = 0; s < pieces[i].bytes / GOP_SIM_SECTOR; s++)
            bytes += __builtin_popcount(pieces[i].used[s]);
    return (bytes + segment - 1) / segment;
}

int gop_sim_transactions(const gop_sim_rules *rules, const gop_sim_request *r,
                         gop_sim_piece pieces[GOP_SIM_PIECES], int *ideal, int *least)
{
    const int width = width_of(r->bytes), together = rules->together[width];
    const int segment = rules->segment[width];
    int count = 0, end;
    *ideal = *least = 0;
    for (int first = 0; first < r->count; first = end) {
        end = until(r, first, r->lane[first] / together * together + together);
        const int from = count;
        *ideal += ((end - first) * r->bytes + segment - 1) / segment;
        for (int i = first; i < end; i++)
            count = touch(pieces, from, count, r->at[i], r->bytes, segment);
        *least += filled_pieces(pieces, from, count, segment);
        if (rules->in_order && !are_in_order(r, first, end, segment)) {
            count = from;
            for (int i = first; i < end; i++) /* `from` is count: no segment is shared */
                count = touch(pieces, count, count, r->at[i], r->bytes, GOP_SIM_SECTOR);
            continue;
        }
        for (int i = from; rules->shrinks && i < count; i++) shrink(&pieces[i]);
    }
    return count;
}

/* ---- shared memory ---- */

/* Wavefronts if each bank delivers one word per wavefront, to all lanes that ask for it: the
 * largest number of words of one bank. `by_bank` counts the words. */
static int turns_of_words(const gop_sim_request *r, int first, int end, int64_t *by_bank)
{
    uintptr_t seen[4 * GOP_SIM_WARP];
    int in_bank[GOP_SIM_BANKS] = {0}, count = 0, most = 0;
    for (int i = first; i < end; i++) {
        const uintptr_t last = (r->at[i] + (uintptr_t)r->bytes - 1) / 4;
        for (uintptr_t word = r->at[i] / 4; word <= last && count < 4 * GOP_SIM_WARP; word++) {
            const int bank = (int)(word % GOP_SIM_BANKS);
            int k = in_bank[bank] ? count - 1 : -1;
            while (k >= 0 && seen[k] != word) k--;
            if (k >= 0) continue;
            seen[count++] = word;
            by_bank[bank]++;
            if (++in_bank[bank] > most) most = in_bank[bank];
        }
    }
    return most;
}

/* Wavefronts if each serves all lanes that ask for one chosen word (the lowest lane's) and one
 * lane in each other bank. Of lanes that store to one address, one stores. */
static int turns_of_lanes(const gop_sim_request *r, int first, int end, int shift, int banks,
                          int64_t *by_bank)
{
    uintptr_t at[GOP_SIM_WARP];
    int left = 0, turns = 0;
    for (int i = first; i < end; i++) {
        const uintptr_t mine = r->at[i] + (uintptr_t)shift;
        int k = r->kind == GOP_SIM_STORE ? left - 1 : -1;
        while (k >= 0 && at[k] != mine) k--;
        if (k < 0) at[left++] = mine;
    }
    for (; left > 0; turns++) {
        const uintptr_t chosen = at[0] / 4;
        const int gives = r->kind != GOP_SIM_STORE;
        unsigned busy = 1u << chosen % (uintptr_t)banks;
        int kept = 0;
        by_bank[chosen % (uintptr_t)banks]++;
        for (int i = 1; i < left; i++) {
            const unsigned bank = 1u << at[i] / 4 % (uintptr_t)banks;
            if (gives && at[i] / 4 == chosen) continue;
            if (busy & bank) at[kept++] = at[i];
            else by_bank[at[i] / 4 % (uintptr_t)banks]++;
            busy |= bank;
        }
        left = kept;
    }
    return turns;
}

/* Whether active lanes at distance `apart` have the same addresses. */
static int are_pairs(const gop_sim_request *r, int first, int end, int apart)
{
    for (int i = first; i < end; i++)
        for (int k = i + 1; k < end && r->lane[k] <= r->lane[i] + apart; k++)
            if (r->lane[k] == (r->lane[i] ^ apart) && r->at[k] != r->at[i]) return 0;
    return 1;
}

/* As Nsight Compute counts: two groups of lanes share a wavefront if neighbours, or lanes two
 * apart, load the same words and the union has no bank conflict. */
static int newest_wavefronts(const gop_sim_rules *rules, const gop_sim_request *r,
                             int64_t by_bank[GOP_SIM_BANKS], int *ideal)
{
    const int together = rules->sharing[width_of(r->bytes)];
    int total = 0, end;
    for (int first = 0; first < r->count; first = end) {
        const int two = r->lane[first] / (2 * together) * (2 * together);
        const int half = until(r, first, two + together);
        int64_t banks[GOP_SIM_BANKS] = {0};
        end = until(r, first, two + 2 * together);
        if (r->kind != GOP_SIM_LOAD || half == first || half == end ||
            !(are_pairs(r, first, end, 1) || are_pairs(r, first, end, 2)) ||
            turns_of_words(r, first, end, banks) > 1) {
            total += turns_of_words(r, first, half, by_bank);
            total += turns_of_words(r, half, end, by_bank);
            continue;
        }
        for (int b = 0; b < GOP_SIM_BANKS; b++) by_bank[b] += banks[b];
        total++;
    }
    *ideal = (r->count * r->bytes + 4 * GOP_SIM_BANKS - 1) / (4 * GOP_SIM_BANKS);
    if (*ideal > total) *ideal = total;
    return total;
}

int gop_sim_wavefronts(const gop_sim_rules *rules, const gop_sim_request *r,
                       int64_t by_bank[GOP_SIM_BANKS], int *ideal)
{
    const int together = rules->sharing[width_of(r->bytes)];
    const int words = rules->banks == GOP_SIM_BANKS ? 1 : (r->bytes + 3) / 4;
    int total = 0, end;
    if (rules->pairs) return newest_wavefronts(rules, r, by_bank, ideal);
    *ideal = 0;
    for (int first = 0; first < r->count; first = end) {
        end = until(r, first, r->lane[first] / together * together + together);
        *ideal += words;
        if (rules->banks == GOP_SIM_BANKS) total += turns_of_words(r, first, end, by_bank);
        else
            for (int w = 0; w < words; w++)
                total += turns_of_lanes(r, first, end, 4 * w, rules->banks, by_bank);
    }
    return total;
}

/* ---- what a launch may ask for, and what runs at a time ---- */

int gop_sim_most_threads(const gop_sim_launch *l)
{
    const int most = gop_sim_rules_of[l->device].most;
    return l->own && most ? most : GOP_SIM_LANES;
}

size_t gop_sim_most_shared(const gop_sim_launch *l, size_t sims)
{
    const int shared = gop_sim_rules_of[l->device].shared;
    return l->own && shared ? (size_t)shared : sims;
}

int64_t gop_sim_resident(const gop_sim_rules *rules, int threads, size_t shared)
{
    int blocks = rules->threads / threads;
    if (blocks > rules->blocks) blocks = rules->blocks;
    if (shared * (size_t)blocks > (size_t)rules->shared)
        blocks = (int)((size_t)rules->shared / shared);
    return (int64_t)rules->processors * (blocks > 0 ? blocks : 1);
}
