"""__main__ - `python -m gpuops` prints the configuration, `python -m gpuops demo` a demo."""

from __future__ import annotations

import argparse
import json
import sys

from . import __version__


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpuops",
        description="Print how gpuops was built, what it finds on this machine, and why not a "
        "GPU if not.",
    )
    parser.add_argument("--version", action="version", version=f"gpuops {__version__}")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("demo", add_help=False, help="the operations against NumPy, and water")
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command == "demo":
        if arguments.json:
            parser.error("--json is for the configuration: demo prints none")
        from .demo import main as demo

        return demo(rest) or 0
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    from .config import config, text

    facts = config()
    sys.stdout.write(json.dumps(facts, indent=2) + "\n" if arguments.json else text(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
