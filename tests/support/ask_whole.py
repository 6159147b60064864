"""Schemathesis against a running service, some thousand cases: ``python tests/support/ask_whole.py [CASES]``.

CASES is the number of generated cases per operation and model (default 80). Two models are asked: one with
probabilities, one trained from groups. The exit code is 0 if no answer was a 5xx or differed from the document.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from library import make_library
from services import Service

from tagwood import LinearTree, Tagger

HERE = Path(sys.executable).parent


def main(cases):
    texts, labels = make_library(400)
    boxes = [f"box {row // 4}" for row in range(400)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, groups in (("rows", None), ("groups", boxes)):
            model = Path(folder) / name
            Tagger(model=LinearTree(threads=1, max_leaf_size=2, arity=2)).fit(texts, labels, groups).save(model)
            service = Service(model, "--quiet")
            try:
                phases = ["--phases", "examples,coverage,fuzzing", "-n", str(cases), "--no-color"]
                address = f"{service.address}openapi.json"
                failed += subprocess.run([HERE / "st", "run", address, *phases], check=False).returncode != 0
            finally:
                service.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 80))
