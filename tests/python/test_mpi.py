"""The recipe for mpi4py in docs/scaling-out.md: each rank has the bits of the whole sum."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "scaling-out.md"

CHECK = """
whole = np.concatenate(comm.allgather(part))
assert whole.size == comm.allreduce(part.size) and comm.size == {ranks}
assert total.tobytes() == gpuops.sum(whole).tobytes()
first = gpuops.states("mean", part[:, None] * [1, 2], 0, start=start)
means = gpuops.finish(gpuops.merge(*comm.allgather(first)))
assert means.tobytes() == gpuops.mean(whole[:, None] * [1, 2], 0).tobytes()
exact = comm.allreduce(gpuops.states("sum", part[::-1], exact=True), op=gpuops.merge)
assert gpuops.finish(exact).tobytes() == gpuops.sum(whole, exact=True).tobytes()
comm.barrier()
if comm.rank == 0:
    print("the same bits on", comm.size)
"""


@pytest.mark.parametrize("ranks", [1, 4])
def test_sums_over_ranks_have_the_bits_of_the_whole(ranks, tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpirun = shutil.which("mpirun")
    if not mpirun:
        pytest.skip("there is no mpirun: Debian's package is openmpi-bin")
    recipe = re.search(r"```python\n(from mpi4py .*?)```", PAGE.read_text(), re.S)[1]
    script = tmp_path / "sum.py"
    script.write_text(recipe + CHECK.format(ranks=ranks))
    said = subprocess.run(
        [mpirun, "-n", str(ranks), "--oversubscribe", sys.executable, str(script)],
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
             "OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == f"the same bits on {ranks}"
