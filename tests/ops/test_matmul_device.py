"""test_matmul_device - matmul of PyTorch's tensors that lie anywhere in a GPU's memory.

Whole numbers are exact in every kernel; around the operands there is NaN, around `out` a number
that must stay.
"""

import pytest

import gpuops

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not gpuops.is_available("cuda"):
    pytest.skip("no GPU", allow_module_level=True)

DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
SHAPES = [
    (64, 250, 70), (129, 65, 131), (300, 512, 257), (1, 999, 77), (515, 33, 3), (256, 256, 256)
]  # fmt: skip
MARK = 7.0
# The first item, the strides' factor along rows and columns, and whether rows lie along memory.
LAYOUTS = [(0, 1, True), (3, 1, True), (8, 1, True), (1, 1, False), (5, 2, True), (2, 3, False)]


def within(rows: int, columns: int, layout, dtype, fill: float, batch: int = 1):
    """A (batch, rows, columns) view of a larger tensor of `fill`, and that tensor."""
    first, step, by_rows = layout
    down, across = (rows, columns) if by_rows else (columns, rows)
    wide = first + across * step + 6
    around = torch.full((batch, down + 2, wide), fill, dtype=dtype, device="cuda")
    view = around[:, 1 : 1 + down, first : first + across * step : step]
    return (view if by_rows else view.mT), around


def whole(shape, dtype, seed: int, most: int):
    generator = torch.Generator("cuda").manual_seed(seed)
    numbers = torch.randint(-most, most + 1, shape, generator=generator, device="cuda")
    return numbers.to(dtype)


def check(m, k, n, layouts, word, batch=1, most=1, **options):
    dtype = getattr(torch, word)
    (a, _), (b, _) = (
        within(rows, columns, layout, dtype, float("nan"), batch)
        for rows, columns, layout in ((m, k, layouts[0]), (k, n, layouts[1]))
    )
    out, around = within(m, n, layouts[2], dtype, MARK, batch)
    a.copy_(whole(a.shape, dtype, 1, most))
    b.copy_(whole(b.shape, dtype, 2, most))
    double = torch.complex128 if dtype.is_complex else torch.float64
    want = (a.to(double) @ b.to(double)).to(dtype)
    assert torch.equal(gpuops.matmul(a, b, **options), want)
    gpuops.matmul(a, b, out=out, **options)
    assert torch.equal(out, want)
    out.fill_(MARK)
    assert bool((around == MARK).all()), "what is around out was written"


@pytest.mark.parametrize("word", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_anywhere(shape, word):
    for k in range(len(LAYOUTS)):
        layouts = [LAYOUTS[(k + 2 * i) % len(LAYOUTS)] for i in range(3)]
        check(*shape, layouts, word)
        check(*shape, [LAYOUTS[k]] * 3, word, batch=3)


@pytest.mark.parametrize("word", DTYPES)
def test_large(word):
    check(3001, 3007, 2999, LAYOUTS[:3], word, most=1 if word in DTYPES[:2] else 9)


def test_large_and_fast():
    check(3001, 3007, 2999, LAYOUTS[:3], "float32", most=9, precision="fast")
    check(1000, 4096, 520, LAYOUTS[1:4], "float32", precision="bf16")
    check(3001, 3007, 2999, LAYOUTS[:3], "float32", most=9, precision="tf32")


@pytest.mark.parametrize("shape", [*SHAPES, (1300, 700, 2100)], ids=str)
def test_anywhere_with_factors_of_11_bits(shape):
    """Kernel rounded: operands as they lie or copied, results by pairs or one by one."""
    options = {"precision": "tf32", "kernel": "tf32"}
    for k in range(len(LAYOUTS)):
        layouts = [LAYOUTS[(k + 2 * i) % len(LAYOUTS)] for i in range(3)]
        check(*shape, layouts, "float32", **options)
        check(*shape, [LAYOUTS[k]] * 3, "float32", batch=3, **options)
    straight, turned = (0, 1, True), (0, 1, False)
    for a in (straight, turned):
        for b in (straight, turned):
            check(*shape, [a, b, straight], "float32", batch=2, **options)
            check(*shape, [a, b, turned], "float32", **options)


@pytest.mark.parametrize("word", DTYPES)
def test_backwards_and_broadcast(word):
    """Strides that PyTorch does not have come from CuPy."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    dtype = getattr(torch, word)
    a, b = whole((7, 130, 90), dtype, 1, 1), whole((90, 66), dtype, 2, 1)
    double = torch.complex128 if dtype.is_complex else torch.float64
    want = torch.matmul(a.cpu().to(double), b.cpu().to(double)).to(dtype)
    got = gpuops.matmul(a, b.expand(7, 90, 66))
    assert torch.equal(got.cpu(), want)
    if word != "bfloat16":
        back = [cupy.from_dlpack(x) for x in (a, b)]
        got = gpuops.matmul(back[0][::-1, ::-1, ::-1], back[1][::-1, ::-1])
        wanted = want.flip(0, 1, 2).numpy()
        assert (got.get() == wanted).all()


@pytest.mark.parametrize("kernel", ["mma", "wgmma_f16", "outer_mma", "gemv_col", "gemv_row"])
@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_halves_anywhere(word, kernel):
    """Operands whose lines are unaligned, by the kernels that bring them in different ways."""
    ran = 0
    for m, k, n in (*SHAPES, (64, 40, 1), (33, 64, 72), (1, 700, 36)):
        for at in range(len(LAYOUTS)):
            layouts = [LAYOUTS[(at + i * 2) % len(LAYOUTS)] for i in range(3)]
            try:
                check(m, k, n, layouts, word, kernel=kernel)
            except gpuops.KernelRefusedError:
                continue
            ran += 1
    if not ran:
        pytest.skip(f"{kernel} takes none of these")


FEW_TILES = [
    (100, 2048, 576), (77, 4096, 5120), (196, 3001, 640), (513, 5000, 90), (40, 9000, 304),
    (1448, 2560, 98), (2100, 700, 130),
]  # fmt: skip


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", FEW_TILES, ids=str)
def test_halves_whose_sums_are_shared(shape, word):
    """Few tiles of long sums, which blocks of a cluster share: 2, 4 or 8."""
    for k in range(len(LAYOUTS)):
        layouts = [LAYOUTS[(k + 2 * i) % len(LAYOUTS)] for i in range(3)]
        check(*shape, layouts, word, kernel="wgmma_f16")
        check(*shape, [LAYOUTS[k], LAYOUTS[-k], LAYOUTS[0]], word, kernel="wgmma_f16")
    layouts = [LAYOUTS[0], LAYOUTS[3], LAYOUTS[0]]
    check(60, 2600, 200, layouts, word, batch=3, kernel="wgmma_f16")


@pytest.mark.parametrize("word", ["float32", "complex64"])
@pytest.mark.parametrize("shape", [(512, 128), (2, 577, 64), (700, 90), (3, 300, 999)], ids=str)
def test_an_array_times_its_own_transpose(shape, word):
    generator = torch.Generator("cuda").manual_seed(3)
    a = torch.randn(shape, dtype=getattr(torch, word), device="cuda", generator=generator)
    try:
        got = gpuops.matmul(a, a.mT, kernel="bf16x3_packed")
    except gpuops.KernelRefusedError as refused:
        pytest.skip(str(refused))
    assert torch.equal(got, got.mT)
    double = a.to(torch.complex128 if a.dtype.is_complex else torch.float64)
    want = double @ double.mT
    assert float((got.to(want.dtype) - want).abs().max() / want.abs().max()) < 1e-5
