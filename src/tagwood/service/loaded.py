"""`Loaded`: a model ready to answer, and `ModelHolder`: the one in use, exchanged without a dropped request.

In: a model folder. Out: the Tagger and what is derived from it once. A request takes `holder.current` when it begins
and keeps it to its end; a new model is loaded beside the old one and then takes its place.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tagwood.errors import InputError, TagwoodError
from tagwood.recipe import recipe_of
from tagwood.service.group_review import GroupReview
from tagwood.service.label_search import LabelIndex, LabelQuery
from tagwood.service.problems import Part, ProblemError
from tagwood.storage import Manifest, read_manifest
from tagwood.storage.folder import MANIFEST
from tagwood.tagger import Tagger

Identity = tuple[int, int, int]


@dataclass(eq=False)
class Loaded:
    """A Tagger with its label index, tree browser and passport.

    Parameters
    ----------
    tagger
        Fitted.
    name
        Short hash of the model.
    manifest
        The passport; None for a Tagger that was never saved.
    names
        Search over label names.
    """

    tagger: Tagger
    name: str
    manifest: Manifest | None
    names: LabelQuery
    loaded_at: float = field(default_factory=time.time)
    _facts: dict[str, Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(
        cls, tagger: Tagger, folder: Path | None = None, *, threads: int = 1, shared: Path | None = None
    ) -> Loaded:
        """Prepare a Tagger; `shared` is a folder in which workers share the label index."""
        for part in (tagger.encoder_, tagger.model_):
            if hasattr(part, "threads"):
                part.threads = threads
        manifest = None if folder is None else read_manifest(folder)
        name = _hash(tagger, folder)
        index = (
            LabelIndex.build(tagger.vocab_)
            if shared is None
            else LabelIndex.shared(tagger.vocab_, shared / name)
        )
        loaded = cls(tagger, name, manifest, LabelQuery(index, tagger.vocab_, tagger.label_counts_))
        loaded._warm_up()
        return loaded

    @property
    def calibrated(self) -> bool:
        """Whether scores are probabilities."""
        return self.tagger.probabilities_ is not None

    @cached_property
    def groups(self) -> GroupReview | None:
        """Groups to review, if the model was trained from group labels and keeps some."""
        kept = getattr(self.tagger, "group_samples_", None)
        return None if kept is None or not len(kept) else GroupReview(self, kept)

    def facts(self) -> dict[str, Any]:
        """Return what this model is and how good it is; computed once."""
        with self._lock:
            if self._facts is None:
                self._facts = {
                    "model": self.name,
                    **self.tagger.overview(),
                    "passport": self._passport(),
                    "recipe": self._recipe(),
                }
            return self._facts

    def _passport(self) -> dict[str, Any]:
        """Return the passport without anything about the folders of this machine."""
        manifest = self.manifest
        if manifest is None:
            return {}
        names = (
            "created",
            "notes",
            "seed",
            "training_seconds",
            "fingerprint",
            "versions",
            "format_version",
        )
        size = sum(file.bytes for file in manifest.files.values())
        return {**{name: getattr(manifest, name) for name in names}, "bytes": size}

    def _recipe(self) -> str | None:
        try:
            return recipe_of(self.tagger).to_toml()
        except InputError:  # parts that recipes do not describe
            return None

    def find(self, label: str | int, pointer: str) -> int:
        """Return the id of a label given by id, name or URI, or raise a problem that names the nearest."""
        vocab = self.tagger.vocab_
        if isinstance(label, int):
            if 0 <= label < len(vocab):
                return label
            detail = f"Labels have the ids 0 to {len(vocab) - 1}; there is no {label}."
            raise ProblemError("unknown-label", detail, [Part(pointer, detail)])
        found = vocab.find(label)
        if found is None and vocab.names is None and label.isdecimal() and len(label) < 11:
            return self.find(int(label), pointer)
        if found is not None:
            return found
        near = self.names.search(label[:100], 1)
        hint = f" Did you mean {near[0].matched!r}?" if near else ""
        detail = f"{label[:100]!r} names no label.{hint}"
        raise ProblemError("unknown-label", detail, [Part(pointer, detail)])

    def language(self, language: str | None) -> str | None:
        """Return a language that the label table has, else None: names are remembered by language."""
        return language if language in self.tagger.vocab_.languages else None

    def brief(self, label: int, language: str | None = None) -> dict[str, Any]:
        """Return a label for a list."""
        vocab = self.tagger.vocab_
        rows = int(self.tagger.label_counts_[label])
        return {"id": label, "name": vocab.name(label, language), "uri": vocab.uri(label), "rows": rows}

    def _warm_up(self) -> None:
        """Do what the first request would otherwise wait for."""
        self.tagger.tag(["warm up"], 1)
        self.tagger.vocab_.find("")


class ModelHolder:
    """Holds the model in use and looks for a new one.

    Parameters
    ----------
    load
        Loads a folder.
    folder
        The model folder, or a link to one; None where the model never changes.
    """

    def __init__(
        self, load: Callable[[Path], Loaded], folder: Path | None, first: Loaded | None = None
    ) -> None:
        self._load = load
        self._folder = folder
        self._seen: Identity | None = None
        self.current_or_none = first
        self.reloads = 0
        self.failures = 0

    @property
    def current(self) -> Loaded:
        """The model in use, or a problem while there is none."""
        if self.current_or_none is None:
            raise ProblemError("not-ready", "Try again in a moment.", headers={"Retry-After": "1"})
        return self.current_or_none

    def refresh(self) -> bool:
        """Load the folder if it changed since the last look; return whether there is a new model.

        A folder that cannot be loaded raises, and the old model stays; it is tried again when it changes.
        """
        if self._folder is None:
            return False
        now = identity(self._folder)
        if now is None or now == self._seen:
            return False
        try:
            self.current_or_none = self._load(self._folder)
            self.reloads += 1
        except TagwoodError:
            self.failures += 1
            raise
        finally:
            self._seen = now
        return True


def identity(folder: Path) -> Identity | None:
    """Return what changes when another model is put into a folder, or None while there is none."""
    try:
        info = (folder / MANIFEST).stat()
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def _hash(tagger: Tagger, folder: Path | None) -> str:
    content = tagger.fingerprint_.encode() if folder is None else (folder / MANIFEST).read_bytes()
    return hashlib.sha256(content).hexdigest()[:12]
