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


# ---- reduce ----


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


def test_columns_read_whole_lines_down_axis_0():
    rows, columns = 2048, 96
    p = profile("reduce", ones(rows, columns), axis=0, kernel="columns")
    blocks = columns // 32
    assert p.blocks == blocks
    assert asked(p, "global", "load") == (rows * blocks, 4 * rows * blocks)
    # Each of eight warps stores a line of sums, the first one loads all eight.
    assert asked(p, "shared", "store") == asked(p, "shared", "load") == (8 * blocks, 8 * blocks)


# ---- matmul ----


def test_naive_matmul_loads_two_operands_for_every_multiply_add():
    m, k, n = 32, 48, 64
    p = profile("matmul", ones(m, k), ones(k, n), kernel="naive")
    warps = m * n // 32
    # One element of a for all threads, 32 neighbours of b.
    assert asked(p, "global", "load") == (2 * k * warps, (1 + 4) * k * warps)
    assert asked(p, "global", "store") == (warps, 4 * warps)


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


def test_a_block_shares_x_among_four_rows():
    n = 2048
    p = profile("jacobi_step", *system(n), alpha=0.5, kernel="block")
    # A leaf of 2048 terms is 16 requests of 16 bytes a lane: of four rows, and once of x.
    requests = (n // 4) * (4 + 1) * 16
    assert asked(p, "global", "load")[0] == requests + (n // 4) * 2
    assert asked(p, "global", "load")[1] == 16 * requests + (n // 4) * 2


def test_column_jacobi_reads_down_contiguous_columns():
    n = 128
    a = np.asfortranarray(ones(n, n))
    p = profile("jacobi_step", a, ones(n), ones(n), alpha=0.5, kernel="column")
    # 32 neighbouring rows of a column, and one x for all of them; then f and x of the rows.
    columns = n * n // 32
    assert asked(p, "global", "load") == (2 * columns + 2 * n // 32, 5 * columns + 8 * n // 32)


def test_staged_jacobi_reads_the_terms_as_they_stand():
    sparse = pytest.importorskip("scipy.sparse")
    n = 256
    a = sparse.eye_array(n, dtype=np.float32, format="csr")
    p = profile("jacobi_step", a, ones(n), ones(n), alpha=0.5, kernel="staged")
    warps = n // 32
    assert p.blocks == 1
    # Where rows begin and end, 32 neighbours each (the end one off: 5 sectors) but the block's
    # first and last row, one element for all; then data, indices and x once, 32 neighbours.
    bounds = warps * (4 + 5) + warps * 2 + warps * 2
    assert p.counts("global", "load").requests == warps * (2 + 2 + 2 + 3 + 2)
    assert p.counts("global", "load").parts == bounds + warps * (3 + 2) * 4


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
