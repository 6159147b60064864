"""The page of the OTSeq2Set experiment. In: stored runs. Out: docs/experiments/otseq2set.{json,md}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "docs" / "experiments"
PAGE, RESULTS = OUT / "otseq2set.md", OUT / "otseq2set.json"


def load() -> dict[str, Any]:
    """Return what was measured so far."""
    found: dict[str, Any] = {"runs": {}, "tree": {}}
    return {**found, **json.loads(RESULTS.read_text())} if RESULTS.exists() else found


def write(result: dict[str, Any]) -> None:
    """Store the results and write the page."""
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
