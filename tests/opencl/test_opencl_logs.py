"""Lines of drivers' logs as sentences by line of the source; no driver is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuops._compile import opencl
from gpuops._compile.kernel_source import Source

ONE = "__kernel void f(__global float *x) {\n  x[0] = zero;\n}\n"
CALL = ONE.replace("zero", "nothing(1)")
INCLUDES = '// its head\n#include "more.h"\n' + ONE


@pytest.mark.parametrize(
    ("said", "text", "line", "words"),
    [
        # NVIDIA's: lines of the whole text, of which gpuops has put two in front.
        ("<kernel>:4:10: error: use of undeclared identifier 'zero'; did you mean 'erf'?",
         ONE, "line 2", "use of undeclared identifier 'zero'; did you mean 'erf'?"),
        ("<kernel>:4:11: error: expected ';' after expression",
         ONE, "line 2", "expected ';' after expression"),
        ("<kernel>:4:10: warning: implicit declaration of function 'nothing' is invalid in "
         "OpenCL", CALL, "line 2",
         "implicit declaration of function 'nothing' is invalid in OpenCL"),
        ("ptxas fatal   : Unresolved extern function 'nothing'",
         CALL, "line 2", "the function 'nothing' is nowhere"),
        ("<kernel>:11:3: error: no", INCLUDES, "line 4", "no"),
        ("<kernel>:7:3: error: no", INCLUDES, "more.h, line 2", "no"),
        # PoCL's and Oclgrind's.
        ("error: /tmp/pocl/tempfile_x.cl:2:10: use of undeclared identifier 'zero'",
         ONE, "line 2", "use of undeclared identifier 'zero'"),
        ("kernel.cl:2:10: fatal error: too much", ONE, "line 2", "too much"),
        ("1:2:10: error: no", ONE, "1, line 2", "no"),
    ],
)  # fmt: skip
def test_the_line_of_an_error(said, text, line, words, tmp_path):
    (tmp_path / "more.h").write_text("#define A 1\n#define B 2\n")
    image = opencl._PROLOGUE + opencl._with_includes(text, tmp_path)
    first, second, *third = str(opencl._error(said, Source(text, tmp_path), image)).splitlines()
    assert first == "compile: the source does not compile"
    assert second == f"{line}: {words}"
    if number := re.fullmatch(r"line (\d+)", line):
        assert [x.strip() for x in third] == [text.splitlines()[int(number[1]) - 1].strip()]


def test_what_has_no_line():
    found = opencl._error("", Source(ONE, Path()), ONE)
    assert str(found).endswith("\nthe driver does not say why")
    found = opencl._error("f has too many parameters", Source(ONE, Path()), ONE)
    assert str(found).endswith("\nf has too many parameters")
