"""magics - `%load_ext gpuops`: %%kernel compiles a cell of CUDA, %gpu_timeit times a call."""

from __future__ import annotations

from typing import Any


def kernel(shell: Any, line: str, cell: str) -> None:
    """%%kernel NAME [DEVICE]: NAME becomes what `gpuops.compile` makes of the cell.

    %%kernel NAME --check 03: NAME becomes the cell's text, which is shown in C++'s colours with
    its lines' numbers and graded; `score` becomes the score.
    """
    from ..compiling import compile
    from ..errors import CompileError

    words = line.split()
    task = words[2] if len(words) == 3 and words[1] == "--check" else ""
    plain = len(words) <= 2 and "--check" not in words
    if not words or not words[0].isidentifier() or not (task or plain):
        print(
            "%%kernel: expected a name, and a device or an exercise if need be: %%kernel twice "
            "sim, %%kernel KERNEL --check 03"
        )
        return
    if task:
        from .. import course

        source = "\n" + cell  # its lines have the numbers that the cell's have
        shell.user_ns[words[0]] = source
        show(source)
        shell.user_ns["score"] = course.check(task, source)
        return
    try:
        shell.user_ns[words[0]] = compile(cell, *words[1:])
    except CompileError as error:
        print(error)  # without the way that Python took there


def show(source: str) -> None:
    """In a notebook, a source in C++'s colours, with line numbers as sentences count them."""
    try:
        from IPython.display import HTML, display
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import CppLexer
    except ImportError:  # no notebook
        return
    form = HtmlFormatter(linenos="inline", noclasses=True, nobackground=True)
    display(HTML(highlight(source, CppLexer(stripnl=False), form)))


def gpu_timeit(shell: Any, line: str) -> Any:
    """%gpu_timeit CALL: `gpuops.benchmark` of a call, whose arguments are computed once."""
    import ast

    from ..timing import benchmark

    tree: ast.expr = ast.parse(line.strip(), mode="eval").body
    if not isinstance(tree, ast.Call):
        print("%gpu_timeit: expected a call: %gpu_timeit gpuops.transpose(a)")
        return None

    def value(node: ast.expr) -> Any:
        return eval(ast.unparse(node), shell.user_ns)

    args: list[Any] = []
    for node in tree.args:
        args += value(node.value) if isinstance(node, ast.Starred) else [value(node)]
    words: dict[str, Any] = {}
    for word in tree.keywords:
        words |= {word.arg: value(word.value)} if word.arg else value(word.value)
    return benchmark(value(tree.func), tuple(args), words)


def load(shell: Any) -> None:
    shell.register_magic_function(
        lambda line, cell: kernel(shell, line, cell), "cell", "kernel"
    )
    shell.register_magic_function(lambda line: gpu_timeit(shell, line), "line", "gpu_timeit")
