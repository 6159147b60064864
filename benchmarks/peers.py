"""The tools that tagwood is compared with: their environments and settings.

In: a tool's name. Out: the Python interpreter of its environment, made with pip in ``.cache/peers`` on first use, and
the list `TOOLS` of what is trained and how it predicts. tagwood itself runs in the environment of the benchmark.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import ROOT

ENVIRONMENTS = ROOT / ".cache" / "peers"

# Arguments of pip, one call each. XR-Linear needs none of the torch packages that libpecos requires.
PACKAGES: dict[str, list[list[str]]] = {
    "pecos": [["numpy==1.26.4", "scipy==1.13.1", "scikit-learn==1.6.1"], ["--no-deps", "libpecos==1.2.8"]],
    "omikuji": [["numpy==2.4.6", "scipy==1.17.1", "omikuji==0.5.2"]],
    "napkinxc": [["numpy==2.4.6", "scipy==1.17.1"], ["--no-deps", "napkinxc==0.7.2"]],
    "annif": [["annif[omikuji]==1.4.3"]],
    "fasttext": [["numpy==1.26.4", "fasttext-wheel==0.9.2"]],
}
DISTRIBUTIONS = {name: name for name in (*PACKAGES, "tagwood")} | {"pecos": "libpecos"}
DISTRIBUTIONS["fasttext"] = "fasttext-wheel"


@dataclass(frozen=True)
class Tool:
    """A tool with its settings, and the ways in which its trained model predicts.

    Parameters
    ----------
    name
        Name on the command line.
    title
        Name in tables.
    adapter
        Module of `benchmarks.adapters` that drives it; also the name of its environment.
    settings
        Given to the adapter's ``train``.
    modes
        Title of each way to predict, and what the adapter's ``load`` gets for it.
    """

    name: str
    title: str
    adapter: str
    settings: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": {}})

    def row_title(self, mode: str) -> str:
        """Return the tool's name in tables, with the mode."""
        return f"{self.title}, {mode}" if mode else self.title


BONSAI = {"n_trees": 3, "cluster_k": 100, "cluster_balanced": False, "max_depth": 3}
TOOLS = (
    Tool(
        "pecos",
        "PECOS XR-Linear",
        "pecos",
        {"nr_splits": 16, "max_leaf_size": 100, "threshold": 0.1, "negative_sampling_scheme": "tfn"},
        {
            "": {},
            "hash-chunked": {"weight_matrix_type": "HASH_CHUNKED"},
            "memory-mapped": {"memory_mapped": True},
        },
    ),
    Tool("omikuji", "Omikuji, 1 tree", "omikuji", {"n_trees": 1}),
    Tool("omikuji-parabel", "Omikuji Parabel, 3 trees", "omikuji", {"n_trees": 3}),
    Tool("omikuji-bonsai", "Omikuji Bonsai, 3 trees", "omikuji", BONSAI),
    Tool("napkinxc", "napkinXC PLT", "napkinxc", {"seed": 1}),
    Tool(
        "tagwood",
        "tagwood",
        "tagwood",
        {},
        {
            "beam": {"search": "beam"},
            "beam of 7": {"search": "beam", "width": 7},
            "exact": {"search": "exact"},
        },
    ),
    Tool("tagwood-3", "tagwood, 3 trees", "tagwood", {"n_trees": 3}, {"beam": {"search": "beam"}}),
    Tool(
        "tagwood-8",
        "tagwood, 8 trees with copies",
        "tagwood",
        {"n_trees": 8, "copies": 2},
        {"beam": {"search": "beam"}},
    ),
)


def interpreter(name: str) -> Path:
    """Return the Python of a tool's environment, which is made if it is missing or out of date."""
    if name not in PACKAGES:
        return Path(sys.executable)
    folder = ENVIRONMENTS / name
    python, done = folder / "bin" / "python", folder / "packages.txt"
    wanted = repr(PACKAGES[name])
    if not (done.exists() and done.read_text() == wanted):
        print(f"{name}: making its environment", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for arguments in PACKAGES[name]:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *arguments], check=True)
        done.write_text(wanted)
    return python


def version(name: str) -> str:
    """Return the version of a tool in its environment."""
    code = f"from importlib.metadata import version; print(version({DISTRIBUTIONS[name]!r}))"
    run = subprocess.run([str(interpreter(name)), "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.strip()
