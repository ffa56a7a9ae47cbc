"""test_reduce_counters - what each row of reduce asks of memory, derived by hand as in
test_ladder_counters."""

import pytest
from test_ladder_counters import NONE, asked, ones, profile

import gpuops

pytestmark = pytest.mark.skipif(
    not gpuops.is_available("sim"), reason="built without the sim backend"
)


def test_a_launch_per_level_reads_every_second_word_twice():
    n = 1 << 10
    p = profile("reduce", ones(n), kernel="naive")
    levels = [n >> k for k in range(10)]  # elements that each launch reads
    warps = sum(-(-m // 64) for m in levels)
    assert p.launches == 10
    assert asked(p, "global", "load") == (2 * warps, sum(2 * -(-m // 8) for m in levels))
    assert asked(p, "global", "store") == (warps, sum(-(-m // 16) for m in levels))


STEPS = [1, 2, 4, 8, 16, 32, 64, 128]  # from partner to partner in a block of 256


def in_blocks(kernel, n=1 << 13):
    """The profile of a lecture row, and its blocks over all launches."""
    p = profile("reduce", ones(n), kernel=kernel)
    return p, p.blocks


def test_interleaved_keeps_all_warps_at_work_for_a_few_of_their_threads():
    p, blocks = in_blocks("interleaved")
    # Of 256 threads every 2*d-th works: in all 8 warps up to d = 16, then in every second, ...
    warps = sum(min(8, 128 // d) for d in STEPS)
    lanes = sum(128 // d for d in STEPS)
    loads, stores = p.counts("shared", "load"), p.counts("shared", "store")
    assert (warps, lanes) == (47, 255)
    assert (loads.requests, loads.lanes) == (blocks * (2 * warps + 1), blocks * (2 * lanes + 1))
    assert (stores.requests, stores.lanes) == (blocks * (warps + 8), blocks * (lanes + 256))
    assert loads.parts == loads.requests


def test_strided_retires_warps_but_meets_banks_again():
    p, blocks = in_blocks("strided")
    warps = [max(1, 4 // d) for d in STEPS]
    # Thread t asks for word 2*d*t: 16/d banks, or one, for the threads of a warp that work.
    ways = [min(32, 128 // d) // max(1, 16 // d) for d in STEPS]
    assert ways == [2, 4, 8, 8, 8, 4, 2, 1]
    turns = sum(w * k for w, k in zip(warps, ways, strict=True))
    assert asked(p, "shared", "load") == (
        blocks * (2 * sum(warps) + 1),
        blocks * (2 * turns + 1),
    )
    assert asked(p, "shared", "store") == (blocks * (sum(warps) + 8), blocks * (turns + 8))


@pytest.mark.parametrize(("kernel", "each"), [("sequential", 1), ("loaded", 2)])
def test_sequential_retires_warps_and_meets_no_bank_twice(kernel, each):
    n = 1 << 13
    p, blocks = in_blocks(kernel, n)
    warps = sum(max(1, d // 32) for d in STEPS)
    assert warps == 12
    assert asked(p, "shared", "load") == (blocks * (2 * warps + 1),) * 2
    assert asked(p, "shared", "store") == (blocks * (warps + 8),) * 2
    assert p.launches == 2
    assert blocks == n // (256 * each) + 1
    assert p.counts("global", "load").lanes == n + n // (256 * each)


@pytest.mark.parametrize("kernel", ["unrolled", "complete", "cascaded"])
def test_the_last_warp_loads_its_partner_s_sum_only(kernel):
    p, blocks = in_blocks(kernel)
    # d = 128 and 64 as before, by 4 and 2 warps; then one warp with its own sum in a register.
    assert asked(p, "shared", "load") == (blocks * (2 * 6 + 1 + 6 + 1),) * 2
    assert asked(p, "shared", "store") == (blocks * (8 + 6 + 6),) * 2


@pytest.mark.parametrize("kernel", ["shuffled", "multipass", "wide", "atomic", "ticket"])
def test_shuffles_leave_one_word_a_warp_to_shared_memory(kernel):
    p, blocks = in_blocks(kernel)
    stores, loads = p.counts("shared", "store"), p.counts("shared", "load")
    rounds = blocks + 1 if kernel == "ticket" else blocks  # the last block folds all sums
    flag = blocks if kernel == "ticket" else 0  # whether it is the last one
    assert (stores.requests, loads.requests) == (8 * rounds + flag, rounds + 8 * flag)
    if kernel in ("atomic", "ticket"):
        assert p.counts("global", "atomic").requests == blocks


def test_wide_loads_16_bytes_and_multipass_as_many_words_as_it_holds():
    n = 1 << 14
    p = profile("reduce", ones(n), kernel="atomic")  # wide's loads, in one launch
    assert asked(p, "global", "load") == (n // 128, 16 * n // 128)
    p = profile("reduce", ones(n), kernel="shuffled")
    blocks = n // (16 * 256)
    assert asked(p, "global", "load") == (n // 32 + 1, 4 * n // 32 + 1)
    assert p.blocks == blocks + 1


@pytest.mark.parametrize(
    ("kernel", "name", "words"), [("tree", "tree_row", 1), ("vectorized", "vectorized", 4)]
)
def test_a_warp_reads_a_leaf_of_the_tree(kernel, name, words):
    leaves = 8
    p = gpuops.profile("reduce", ones(leaves * 2048), kernel=kernel)[f"reduce_{name}"]
    requests = leaves * 2048 // words // 32
    assert asked(p, "global", "load") == (requests, 4 * words * requests)
    if kernel == "tree":
        assert asked(p, "shared", "load") == asked(p, "shared", "store") == NONE


def test_few_has_a_thread_for_each_lane():
    leaves = 5
    p = profile("reduce", ones(leaves * 2048), kernel="few")
    requests = leaves * 2048 // 32
    assert (p.blocks, p.threads) == (1, 8 * 128)  # a subtree
    assert asked(p, "global", "load") == (requests, 4 * requests)


# Rows of 67 floats start at eight places of a sector: a warp's 128 bytes are 4 sectors once and
# 5 seven times, the last 12 bytes 1 six times and 2 twice.
@pytest.mark.parametrize(("columns", "sectors"), [(96, 12), (67, (2 * 39 + 10) / 8)])
def test_columns_read_whole_lines_down_axis_0(columns, sectors):
    rows = 496
    p = profile("reduce", ones(rows, columns), axis=0, kernel="columns")
    blocks = -(-columns // 32)
    assert p.blocks == blocks
    assert asked(p, "global", "load") == (rows * blocks, sectors * rows)
    # Each of sixteen warps stores a line of sums, the first one loads all sixteen.
    assert asked(p, "shared", "store") == asked(p, "shared", "load") == (16 * blocks,) * 2


def test_a_quarter_of_a_warp_reads_a_sector_where_columns_are_few_and_long():
    rows, columns = 2048, 96
    p = profile("reduce", ones(rows, columns), axis=0, kernel="columns")
    assert (p.blocks, p.threads) == (12, 12 * 512)
    assert asked(p, "global", "load") == (rows * 12 // 4, rows * 12)


@pytest.mark.parametrize(("op", "warps"), [("sum", 8), ("max", 16)])
def test_a_thread_has_four_columns_where_columns_are_many(op, warps):
    rows, columns = 34, 1 << 14
    p = gpuops.profile(op, ones(rows, columns), axis=0, kernel="columns")["reduce_columns"]
    blocks = columns // 128
    assert (p.blocks, p.threads) == (blocks, blocks * warps * 32)
    assert asked(p, "global", "load") == (rows * blocks, 16 * rows * blocks)
    # The warps store four words a thread, four words apart; a thread loads one column's.
    assert asked(p, "shared", "store") == (4 * warps * blocks, 4 * 4 * warps * blocks)
    assert asked(p, "shared", "load") == (4 * warps * blocks,) * 2


def test_a_thread_has_all_of_its_outputs_where_rows_are_few():
    rows, columns = 8, 1 << 14
    p = profile("reduce", ones(rows, columns), axis=0, kernel="columns")
    assert asked(p, "global", "load") == (rows * columns // 128, rows * columns // 8)
    assert asked(p, "global", "store") == (columns // 128, columns // 8)
    assert asked(p, "shared", "store") == asked(p, "shared", "load") == NONE


def test_thin_reads_short_rows_as_one_line():
    rows, columns = 4096, 3
    p = profile("reduce", ones(rows, columns), axis=0, kernel="thin")
    assert asked(p, "global", "load") == (rows * columns // 128, rows * columns // 8)


def test_short_reads_neighbouring_outputs_and_folds_without_shared_memory():
    outputs, n = 1 << 10, 8
    p = profile("reduce", ones(outputs, n), axis=1, kernel="short")
    assert asked(p, "global", "load") == (outputs * n // 32, outputs * n // 8)
    assert asked(p, "global", "store") == (outputs // 32, outputs // 8)
    assert asked(p, "shared", "store") == NONE
