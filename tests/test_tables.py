"""The speed tables of the documents are generated from the results on file, and are fresh."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_documents_show_the_results_on_file():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "tables.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
