"""Measurements of tagwood beside other tools: one folder per subject, started as ``python -m benchmarks.SUBJECT``.

The modules beside the folders are shared: `measure` (processes, CPU time, memory), `peers` (other tools and their
environments), `problems` (data), `runs` and `adapters` (training and asking tools), `report` (tables and pages).
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
CACHE = ROOT / ".cache" / "bench"
