"""Save a model that a command has changed. In: a Tagger and where it came from. Out: its next state, in one step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tagwood.tagger import Tagger


def save_changed(tagger: Tagger, model: Path, target: Path) -> None:
    """Save with the notes of the passport in `model`; a model at `target` is replaced when the new one is complete."""
    from tagwood.storage import read_manifest

    tagger.save(target, notes=read_manifest(model).notes, overwrite=True)
