/*
 * gathers.h - boxes that are read as they lie, and words of the output that are gathered from
 * them: how small items are placed in shared memory, found on the host.
 */
#ifndef GOP_CUDA_TRANSPOSE_GATHERS_H
#define GOP_CUDA_TRANSPOSE_GATHERS_H

#include "cuda/transpose/boxes.h"

enum {
    AROUND_AXES = 6, /* that are cut into boxes, */
    WITHIN_AXES = 6, /* of a box, on each side, at most */
    PIECES = 6,      /* of 16 bytes that a thread reads of a box, at most */
};

/* What all boxes have in common. */
struct gathering {
    int64_t boxes, span;      /* bytes of the input from a box's first to behind its last */
    int rank, cut, cut_bytes; /* as of boxed */
    /* Read: stretches of so many bytes, in so many pieces at most. */
    int stretch, pieces, from_axes, raw;
    fast_divisor stretch_pieces;
    /* Written: lines of so many bytes, and groups of so many, of which the last of a line is
     * shorter. The offsets of groups from multiples of 4 bytes are multiples of `apart`; teams
     * of `team` threads share these kinds of groups. In a team, `wide` neighbouring threads
     * have the words of a group, and `at_once` groups are written at once. */
    int line_axes, to_axes, line_bytes, group_bytes, group_place, last_bytes;
    int groups, words, apart, teams, team, at_once;
    fast_divisor wide, lines;
    bool has_ends;
    boxed_axis axis[AROUND_AXES];
    box_step from[WITHIN_AXES], line[WITHIN_AXES], to[WITHIN_AXES];
};

struct gathered_plan {
    gathering boxes;
    unsigned blocks;
    int item; /* as it moves */
};

/* Where a group lies, from the box's first item on, in the output and in shared memory. */
struct alignas(8) group_start {
    uint32_t at;
    int32_t place;
};

/* Bytes of shared memory: two boxes, groups and lines, and a group's items. */
static inline size_t gather_shared(const gathering &p, int item)
{
    return 2 * (size_t)p.raw + sizeof(group_start) * (size_t)(p.groups + p.lines.d) +
           sizeof(uint16_t) * (size_t)(p.group_bytes / item + 4);
}

/* Plans boxes of about so many bytes, of 1- or 2-byte items; false if they do not fit. */
bool transpose_gathers(const gop_task *task, const gop_permutation &g, int item, int64_t room,
                       gathering *p);
/* The wavefronts of the first warp when it reads an item each. */
int transpose_gather_turns(const gathering &p, int item);

#endif
