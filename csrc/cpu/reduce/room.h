/*
 * room.h - the layout of a worker's scratch.
 */
#ifndef GOP_CPU_REDUCE_ROOM_H
#define GOP_CPU_REDUCE_ROOM_H

#include "cpu/reduce/rows.h"

/* Adds `bytes` to the room. Returns their offset. */
static size_t take(reduce_room *room, size_t bytes)
{
    const size_t begin = room->bytes;
    room->bytes += whole_lines(bytes);
    return begin;
}

/* Bytes of a worker's pack buffer: a node's elements, and the rest of its first and last line.
 */
static size_t pack_bytes(const reduce_plan *plan)
{
    return plan->span
               ? (size_t)(((LEAF << plan->node_leaves) + 2 * plan->span) * (int64_t)plan->item)
               : 0;
}

/* Lays out what fold_columns needs for a run of `wide` bytes of accumulators. */
static void lay_out_columns(reduce_plan *plan, const gop_reduction *g, size_t wide)
{
    reduce_room *const room = &plan->room;
    const int64_t inner = g->kept - 1;
    const int near = plan->turned || (g->in[inner] == 1 && !plan->table.size);
    int beside = 1, levels = 1; /* as in fold_column_leaf, or fewer beside and more levels */
    while (beside < LANES && 2 * beside * wide <= WIDE_BYTES) beside *= 2;
    for (int side = beside; side < LANES; side *= 2) levels++;
    room->group_size = whole_lines(beside * wide > WIDE_BYTES / 2 ? WIDE_BYTES : beside * wide);
    const size_t joint = whole_lines((size_t)plan->joint * wide);
    room->cast_rows = plan->casts_alone && plan->fold->stack && near && !plan->turned &&
                      g->reduced == 1 && wide <= CAST_ROW;
    if (room->cast_rows) room->gathered = take(room, LEAF * wide);
    else if (!near || !(plan->in_place || plan->direct))
        room->gathered = take(room, ROWS * (plan->joint > 1 ? joint : room->pitch));
    if (plan->joint > 1) {
        room->joint = take(room, joint);
        room->numbers = take(room, (size_t)(plan->joint * plan->line) * sizeof(int64_t));
    }
    if (plan->fold->stack) {
        room->group = take(room, room->group_size);
        room->lanes = take(room, (size_t)levels * room->group_size);
    }
    if (plan->turned) room->turned = take(room, (size_t)(plan->width * g->count) * plan->item);
}

static void lay_out_rows(reduce_plan *plan, const gop_reduction *g)
{
    reduce_room *const room = &plan->room;
    const int64_t count = gop_smaller(g->count, LEAF);
    if (!plan->direct) room->gathered = take(room, (size_t)count * plan->fold->bytes);
    if (plan->span) {
        room->tile = take(room, TILE_BYTES);
        room->packed = take(room, pack_bytes(plan));
    }
}

static void lay_out(reduce_plan *plan, const gop_reduction *g)
{
    reduce_room *const room = &plan->room;
    const size_t wide = (size_t)plan->width * plan->fold->bytes;
    int levels = plan->node_leaves + 1; /* of a node's tree; then of the tree above */
    while (plan->nodes >> levels) levels++;
    room->pitch = whole_lines(wide < ROW_BYTES ? wide : ROW_BYTES);
    room->value = take(room, wide);
    room->number = take(room, (size_t)gop_smaller(plan->width, ROW_ITEMS) * sizeof(int64_t));
    room->node = take(room, (size_t)levels * room->pitch);
    room->leaf = take(room, room->pitch);
    if (plan->columns) lay_out_columns(plan, g, wide);
    else lay_out_rows(plan, g);
}

/* Bytes of the nodes of all outputs; 0 if an output is one node. */
static size_t node_bytes(const reduce_plan *plan, const gop_reduction *g)
{
    if (plan->nodes == 1) return 0;
    const size_t values = (size_t)(plan->nodes * g->outputs);
    return whole_lines(values * plan->fold->bytes + 16 +
                       (plan->position ? values * sizeof(int64_t) : 0));
}

#endif
