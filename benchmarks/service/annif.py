"""Annif's REST service on the same data: an Omikuji project, served by gunicorn with uvicorn workers as documented."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import interpreter

PROJECT = "bench"
_CONFIG = f"""[{PROJECT}]
name=Omikuji Parabel
language=en
backend=omikuji
analyzer=snowball(english)
vocab=bench
cluster_balanced=True
cluster_k=2
max_depth=20
collapse_every_n_layers=0
limit=100
"""


def prepare(folder: Path, names: Sequence[str], texts: Sequence[str], labels: Sequence[Sequence[int]]) -> Path:
    """Make a data folder with vocabulary, project and trained model, or return an earlier one."""
    done = folder / "trained"
    python = interpreter("annif")
    if done.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "projects.cfg").write_text(_CONFIG)
    write_sentence_data(folder)
    uris = [f"<http://example.org/{number}>" for number in range(len(names))]
    lines = [f"{uri}\t{_flat(name)}" for uri, name in zip(uris, names, strict=True)]
    (folder / "vocab.tsv").write_text("\n".join(lines) + "\n")
    rows = [
        f"{_flat(text)}\t{' '.join(uris[label] for label in chosen)}"
        for text, chosen in zip(texts, labels, strict=True)
    ]
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    for arguments in (
        ["load-vocab", "bench", "vocab.tsv", "--language", "en"],
        ["train", PROJECT, "train.tsv"],
    ):
        print(f"annif {arguments[0]} ...", flush=True)
        with (folder / "log.txt").open("a") as log:
            command = [str(python), "-m", "annif.cli", *arguments]
            subprocess.run(command, cwd=folder, env=_environment(folder), check=True, stdout=log, stderr=log)
    done.touch()
    return folder


def serve(folder: Path, port: int, workers: int) -> subprocess.Popen[bytes]:
    """Start the service."""
    python = interpreter("annif")
    command = [str(python.with_name("gunicorn")), "--workers", str(workers), "--bind", f"127.0.0.1:{port}"]
    command += [
        "--worker-class",
        "uvicorn.workers.UvicornWorker",
        "--log-level",
        "warning",
        "annif:create_cx_app()",
    ]
    with (folder / "serve.txt").open("w") as log:
        return subprocess.Popen(command, cwd=folder, env=_environment(folder), stdout=log, stderr=log)


def _environment(folder: Path) -> dict[str, str]:
    settings = {
        "ANNIF_DATADIR": str(folder / "data"),
        "ANNIF_CONFIG": "annif.default_config.ProductionConfig",
    }
    return {**os.environ, **settings, "NLTK_DATA": str(folder / "nltk"), "RAYON_NUM_THREADS": "2"}


def write_sentence_data(folder: Path) -> None:
    """Write NLTK's sentence data without learned abbreviations: Annif would fetch it, and titles are one sentence."""
    place = folder / "nltk" / "tokenizers" / "punkt_tab" / "english"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (place / name).touch()


def _flat(text: str) -> str:
    return " ".join(text.split())
