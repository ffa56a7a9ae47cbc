"""test_ladder_counters - what each row of the CUDA ladders asks of memory, derived by hand.

The formulas follow from the kernels' source: who reads what. A request is an instruction of a
warp; 32 neighbouring floats are 4 sectors of 32 bytes, 32 neighbouring 16-byte words are 16.
"""

import numpy as np
import pytest

import gpuops

pytestmark = pytest.mark.skipif(
    not gpuops.is_available("sim"), reason="built without the sim backend"
)


def ones(*shape):
    return np.ones(shape, np.float32)


def profile(op, *args, kernel, **options):
    """The profile of the row's own kernel."""
    return gpuops.profile(op, *args, kernel=kernel, **options)[f"{op}_{kernel}"]


def asked(profile, space, kind):
    """Requests, and sectors or wavefronts."""
    counts = profile.counts(space, kind)
    return counts.requests, counts.parts


NONE = (0, 0)

# ---- add, multiply_add, fma: every element once ----


@pytest.mark.parametrize(("op", "inputs"), [("add", 2), ("multiply_add", 3), ("fma", 3)])
def test_elementwise_rows_move_each_sector_once(op, inputs):
    n = 1 << 12
    arrays = [ones(n)] * inputs
    p = gpuops.profile(op, *arrays, kernel="naive")["add_naive"]
    assert asked(p, "global", "load") == (inputs * n // 32, 4 * inputs * n // 32)
    assert asked(p, "global", "store") == (n // 32, 4 * n // 32)
    p = gpuops.profile(op, *arrays, kernel="vectorized")["add_vectorized"]
    assert asked(p, "global", "load") == (inputs * n // 128, 16 * inputs * n // 128)
    assert asked(p, "global", "store") == (n // 128, 16 * n // 128)


def test_a_broadcast_operand_is_one_sector_a_request():
    n = 1 << 12
    p = profile("add", ones(n), ones(1), kernel="vectorized")
    assert asked(p, "global", "load") == (2 * n // 128, (16 + 1) * n // 128)


# ---- transpose ----

N = 128
WARPS = N * N // 32


def copied(kernel):
    """The profile of a yardstick, which answers no call and is only timed."""
    call = {"kernel": kernel, "device": "sim"}

    def once():
        gpuops.benchmark("transpose", (ones(N, N),), call, n_repeat=1, n_warmup=0)

    return gpuops.profile(once)[f"transpose_{kernel}"]


def test_yardsticks_move_each_byte_once_by_words_of_4_or_16():
    for kernel, words in (("copy", 1), ("staged", 1), ("streamed", 4)):
        p = copied(kernel)
        for kind in ("load", "store"):
            assert asked(p, "global", kind) == (WARPS // words, 4 * WARPS)
    for kind in ("load", "store"):
        assert asked(copied("strided"), "global", kind) == (WARPS, 32 * WARPS)
        assert asked(copied("staged"), "shared", kind) == (WARPS, WARPS)


@pytest.mark.parametrize(
    ("kernel", "far", "near"), [("naive", "load", "store"), ("reads", "store", "load")]
)
def test_one_side_of_a_naive_transpose_takes_a_sector_for_each_element(kernel, far, near):
    p = gpuops.profile("transpose", ones(N, N), kernel=kernel)["transpose_naive"]
    assert asked(p, "global", far) == (WARPS, 32 * WARPS)
    assert asked(p, "global", near) == (WARPS, 4 * WARPS)
    assert asked(p, "shared", "load") == asked(p, "shared", "store") == NONE


@pytest.mark.parametrize(
    ("kernel", "conflicts"), [("tiled", 32), ("padded", 1), ("diagonal", 1), ("swizzled", 1)]
)
def test_a_column_of_a_tile_is_one_bank_unless_it_is_moved(kernel, conflicts):
    p = profile("transpose", ones(N, N), kernel=kernel)
    for kind in ("load", "store"):
        assert asked(p, "global", kind) == (WARPS, 4 * WARPS)
    assert asked(p, "shared", "store") == (WARPS, WARPS)
    assert asked(p, "shared", "load") == (WARPS, conflicts * WARPS)


def test_vectorized_moves_16_bytes_everywhere_and_meets_no_bank_twice():
    p = profile("transpose", ones(N, N), kernel="vectorized")
    for kind in ("load", "store"):
        assert asked(p, "global", kind) == (WARPS // 4, 16 * WARPS // 4)
        assert asked(p, "shared", kind) == (WARPS // 4, 4 * WARPS // 4)


def test_packed_moves_words_of_4_bytes_whatever_the_item():
    p = profile("transpose", np.ones((N, N), np.int16), kernel="packed")
    words = N * N // 2 // 32
    for kind in ("load", "store"):
        assert asked(p, "global", kind) == (words, 4 * words)
        assert asked(p, "shared", kind) == (words, words)


def test_sectored_moves_items_and_meets_no_bank_twice():
    p = profile("transpose", ones(N, N), kernel="sectored")
    for kind in ("load", "store"):
        assert asked(p, "global", kind) == (WARPS, 4 * WARPS)
        assert asked(p, "shared", kind) == (WARPS, WARPS)


def test_rows_that_start_anywhere_take_a_sector_more():
    # Rows of 4 * 127 bytes: 32 neighbours lie in 4 sectors if they start at a multiple of 32
    # bytes, which every eighth row does, else in 5.
    p = profile("transpose", ones(64, 127), kernel="sectored")
    loads = p.counts("global", "load")
    starts = [(4 * (127 * row + 32 * part)) % 32 for row in range(64) for part in range(3)]
    sectors = sum(4 if start == 0 else 5 for start in starts)
    last = [4 * (127 * row + 96) % 32 for row in range(64)]  # 31 of 32 words
    sectors += sum(4 if start <= 4 else 5 for start in last)
    assert (loads.requests, loads.parts) == (64 * 4, sectors)


# ---- matmul ----


def test_naive_matmul_loads_two_operands_for_every_multiply_add():
    m, k, n = 32, 48, 64
    p = profile("matmul", ones(m, k), ones(k, n), kernel="naive")
    warps = m * n // 32
    # One element of a for all threads, 32 neighbours of b.
    assert asked(p, "global", "load") == (2 * k * warps, (1 + 4) * k * warps)
    assert asked(p, "global", "store") == (warps, 4 * warps)


def test_strided_matmul_takes_a_sector_for_each_element_of_a():
    m, k, n = 64, 48, 32
    p = profile("matmul", ones(m, k), ones(k, n), kernel="strided")
    warps = m * n // 32
    # 32 rows of a, one element of b for all.
    assert asked(p, "global", "load") == (2 * k * warps, (32 + 1) * k * warps)
    assert asked(p, "global", "store") == (warps, 32 * warps)


@pytest.mark.parametrize("tile", [32, 16])
def test_tiled_matmul_loads_each_tile_once_for_a_block(tile):
    m, k, n = 64, 96, 64
    p = profile("matmul", ones(m, k), ones(k, n), kernel="tiled", params={"tile": tile})
    warps = m * n // 32
    steps = k // tile
    # A warp is 32 / tile rows of a tile: 4 sectors either way.
    assert asked(p, "global", "load") == (2 * steps * warps, 4 * 2 * steps * warps)
    assert asked(p, "shared", "store") == (2 * steps * warps, 2 * steps * warps)
    # A column of a_tile is one word a row; a row of b_tile is neighbours: no bank is met twice,
    # save that with 16 columns a warp reads two words of a, 16 apart, which are two banks.
    assert asked(p, "shared", "load") == (2 * k * warps, 2 * k * warps)


def test_patches_of_matmul_read_16_words_of_shared_memory_for_64_products():
    k = 64
    p = profile("matmul", ones(128, k), ones(k, 128), kernel="patches")
    loads = 2 * 128 * k // 32
    assert asked(p, "global", "load") == (loads, 4 * loads)
    # 16 neighbouring columns twice: two sectors of each of two rows.
    assert asked(p, "global", "store") == (8 * 64, 8 * 64 * 4)
    # A word a thread, and no bank is met twice.
    assert asked(p, "shared", "load") == (8 * 16 * k, 8 * 16 * k)


def test_units_load_nothing_but_their_factors():
    rungs = gpuops.ladder("matmul", ones(70, 50), ones(50, 90), device="sim", only="units")
    p = rungs["units"].profile["matmul_units"]
    assert asked(p, "global", "load") == (2 * 8 * p.blocks, 2 * 8 * p.blocks)
    assert asked(p, "global", "store") == NONE
    assert asked(p, "shared", "load") == NONE


def test_blocktiled_matmul_reads_16_words_of_shared_memory_for_64_products():
    k = 64
    p = profile("matmul", ones(128, k), ones(k, 128), kernel="blocktiled")
    assert p.blocks == 1
    loads = 2 * 128 * k // 32
    assert asked(p, "global", "load") == (loads, 4 * loads)
    # A thread stores its 64 outputs one by one; 16 threads of a warp are 16 bytes apart.
    assert asked(p, "global", "store") == (8 * 64, 8 * 64 * 16)
    # Words of 16 bytes, two of a and two of b for each of k terms, and where the outputs go.
    # All threads of half a warp want the same of a, so that each half is served at once; of b
    # they want 16 different ones, which is two turns for each half.
    assert asked(p, "shared", "load") == (8 * (4 * k + 2), 8 * (k * (2 * 2 + 2 * 4) + 2))


# ---- jacobi_step ----


def system(n):
    return ones(n, n), ones(n), ones(n)


def test_naive_jacobi_fetches_a_sector_for_each_element_of_the_matrix():
    n = 64
    p = profile("jacobi_step", *system(n), alpha=0.5, kernel="naive")
    warps = n // 32
    # a: 32 rows; x: one element for all; then f and x of the row.
    assert asked(p, "global", "load") == ((2 * n + 2) * warps, (33 * n + 2 * 4) * warps)
    assert asked(p, "global", "store") == (warps, 4 * warps)


def test_tiled_jacobi_reads_rows_whole_and_the_padded_tile_without_conflicts():
    n = 64
    p = profile("jacobi_step", *system(n), alpha=0.5, kernel="tiled")
    rows = n * n // 32
    assert asked(p, "global", "load") == (2 * rows + 2 * n // 32, 4 * (2 * rows + 2 * n // 32))
    stores, loads = p.counts("shared", "store"), p.counts("shared", "load")
    blocks = n // 32
    assert (stores.requests, stores.parts) == (rows + 8 * blocks, rows + 8 * blocks)
    assert (loads.requests, loads.parts) == (rows + 7 * blocks, rows + 7 * blocks)


def test_a_warp_per_row_reads_neighbours():
    n = 128
    p = profile("jacobi_step", *system(n), alpha=0.5, kernel="warp")
    # A row and x in four requests each, then one thread's f and x.
    assert asked(p, "global", "load") == (n * (2 * 4 + 2), n * (2 * 4 * 4 + 2))
    assert asked(p, "global", "store") == (n, n)


def test_a_block_jacobi_reads_16_bytes_a_lane():
    n = 2048
    p = profile("jacobi_step", *system(n), alpha=0.5, kernel="block")
    # A leaf of 2048 terms is 16 requests of 16 bytes a lane, of A and of x; then f and x.
    requests = n * 2 * 16
    assert asked(p, "global", "load") == (requests + n * 2, 16 * requests + n * 2)


def test_column_jacobi_reads_down_contiguous_columns():
    n = 128
    a = np.asfortranarray(ones(n, n))
    p = profile("jacobi_step", a, ones(n), ones(n), alpha=0.5, kernel="column")
    # 32 neighbouring rows of four columns, and an x for each; then f and x of the rows.
    fours = n * n // 128
    requests, sectors = 2 * fours, (16 + 4) * fours
    assert asked(p, "global", "load") == (requests + 2 * n // 32, sectors + 8 * n // 32)


# ---- rdf ----


def cloud(n):
    return np.random.default_rng(0).random((n, 3)).astype(np.float32)


def test_naive_rdf_reads_a_later_point_for_every_pair():
    n, bins = 96, 8
    p = profile("rdf", cloud(n), 10.0, bins, kernel="naive")
    # Three coordinates a pair, both outer thresholds and three by halving; the threads of a
    # warp go on until its first one has met all later points.
    turns = sum(n - 1 - first for first in range(0, n, 32))
    assert p.counts("global", "atomic").requests == turns
    assert p.counts("global", "load").requests == 3 * n // 32 + turns * (3 + 2 + 3)
    assert p.counts("global", "atomic").lanes == n * (n - 1) // 2


def test_shared_rdf_adds_a_counter_once_for_a_block():
    n, bins = 256, 32
    p = profile("rdf", cloud(n), 10.0, bins, kernel="shared")
    assert p.blocks == 1
    # Every warp reads every point of the tile, 16 bytes for all; and 32 counters in the end.
    assert p.counts("shared", "load").requests == 8 * n + 1
    assert p.counts("global", "atomic").requests == 1
    assert p.counts("shared", "atomic").lanes == n * (n - 1) // 2


def test_persistent_rdf_reads_a_point_once_for_two():
    n = 512
    p = profile("rdf", cloud(n), 10.0, 32, kernel="persistent")
    assert p.blocks == 1
    assert p.counts("shared", "atomic").lanes == n * (n - 1) // 2
    assert p.counts("shared", "load").requests >= 8 * n
