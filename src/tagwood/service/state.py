"""`ServiceState`: what the endpoints of one project share: the model in use, threads, journals and counts.

A project is a served model with an id; a worker serves one or more, and each is loaded and replaced on its own.

`LoadedModel` is a Tagger ready to answer, `ModelHolder` holds the one in use. A request takes `holder.current` when it
begins and keeps it to its end; a new model is loaded next to the old one and replaces it without a failed request.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from tagwood._check import use_threads
from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.recipe import recipe_of
from tagwood.service.batching import RequestBatcher, TagOptions, tag_texts
from tagwood.service.filters import FilterStore, has_row_ids
from tagwood.service.group_review import GroupReview
from tagwood.service.journal import Journal
from tagwood.service.label_search import LabelNameIndex, LabelNameSearch
from tagwood.service.learning import LiveLearning
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.problems import ProblemError
from tagwood.service.progress import ReviewQueue
from tagwood.service.settings import Candidate, ServiceSettings
from tagwood.service.traffic import Traffic
from tagwood.storage import Manifest
from tagwood.storage.folder import GOLDEN, MANIFEST, manifest_bytes
from tagwood.tagger import Tagger
from tagwood.tagger.drift import frequency_bands

P = ParamSpec("P")
T = TypeVar("T")
Identity = dict[str, tuple[int, int, int]]


@dataclass(eq=False)
class LoadedModel:
    """A Tagger with its manifest and the search over its label names."""

    tagger: Tagger
    name: str  # short hash of the model
    manifest: Manifest | None  # manifest of the model folder; None for a Tagger that was never saved
    names: LabelNameSearch
    loaded_at: float = field(default_factory=time.time)  # Unix time
    files: dict[Path, tuple[int, int, int]] = field(default_factory=dict)  # those that its arrays are mapped from

    @classmethod
    def of(
        cls, tagger: Tagger, manifest: Manifest | None = None, *, threads: int = 1, run_folder: Path | None = None
    ) -> LoadedModel:
        """Prepare a Tagger, with the manifest it was loaded by; workers share the label index in `run_folder`."""
        use_threads(tagger, threads)
        content = tagger.fingerprint_.encode() if manifest is None else manifest_bytes(manifest)
        name = hashlib.sha256(content).hexdigest()[:12]
        if run_folder is None:
            index = LabelNameIndex.build(tagger.vocab_)
        else:
            index = LabelNameIndex.shared(tagger.vocab_, run_folder / "labels" / name)
        # Do now what the first request would otherwise wait for.
        tagger.tag(["warm up"], 1)
        tagger.vocab_.find("")
        return cls(tagger, name, manifest, LabelNameSearch(index, tagger.vocab_, tagger.label_counts_))

    def is_overwritten(self) -> bool:
        """Whether a file of the model was changed in place: its arrays have changed, or end before their size."""
        for path, (inode, *known) in self.files.items():
            try:
                info = path.stat()
            except OSError:  # replaced by another model, while the old files live on
                continue
            if info.st_ino == inode and [info.st_mtime_ns, info.st_size] != known:
                return True
        return False

    def check(self) -> None:
        """Raise a problem if answers of the model cannot be trusted; call it before and after computing one."""
        if self.is_overwritten():
            detail = "Files of the model were overwritten while it was in use. Save a model over the folder instead."
            raise ProblemError("not-ready", detail, headers={"Retry-After": "1"})

    @property
    def saved_at(self) -> float:
        """Unix time at which the model was saved; that of loading for a Tagger that never was."""
        return self.loaded_at if self.manifest is None else datetime.fromisoformat(self.manifest.created).timestamp()

    @property
    def calibrated(self) -> bool:
        """Whether scores are probabilities."""
        return self.tagger.probabilities_ is not None

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the model is and how good it is, with its recipe and its passport; computed once."""
        try:
            recipe = recipe_of(self.tagger).to_toml()
        except InputError:  # parts that recipes cannot describe
            recipe = None
        overview = self.tagger.overview()
        return {"model": self.name, "passport": _passport(self.manifest), "recipe": recipe, **overview}

    @cached_property
    def bands(self) -> NDArray[np.uint8]:
        """Frequency band of each label; see `drift`."""
        return frequency_bands(self.tagger.label_counts_)

    @cached_property
    def groups(self) -> GroupReview | None:
        """Groups to review, if the model was trained from group labels and keeps some of the texts."""
        kept = self.tagger.group_samples_
        return None if kept is None or not len(kept) else GroupReview(self.tagger, kept)

    def find(self, label: str | int, pointer: str) -> int:
        """Return the id of a label given by id, name or URI, or raise a problem that suggests the nearest name."""
        vocab = self.tagger.vocab_
        if isinstance(label, str):
            try:
                found = vocab.find(label)
            except InputError as error:  # ambiguous
                raise ProblemError.at(pointer, str(error), "unknown-label") from None
            if found is not None:
                return found
            if vocab.names is not None or not label.isdecimal() or len(label) > 10:
                detail = f"There is no label {label[:100]!r}.{self.did_you_mean(label)}"
                raise ProblemError.at(pointer, detail, "unknown-label")
            label = int(label)  # in a vocabulary without names, labels are named by their ids
        row = int(vocab.find_many([label])[0])
        if row < 0:
            known = f"Label ids are 0 to {len(vocab) - 1}" if vocab.id_kind == "row" else "No label has this id"
            raise ProblemError.at(pointer, f"{known}; got {label}.", "unknown-label")
        return row

    def find_many(self, labels: Sequence[str | int], pointer: str) -> tuple[int, ...]:
        """Return the ids of labels as `find` does, of known ones without a loop."""
        try:
            rows = self.tagger.vocab_.find_many(list(labels))
        except InputError:  # one is ambiguous
            rows = np.full(len(labels), -1)
        for place in np.flatnonzero(rows < 0).tolist():
            rows[place] = self.find(labels[place], f"{pointer}/{place}")
        return tuple(rows.tolist())

    def did_you_mean(self, label: str) -> str:
        """Return the question that follows an unknown label: the nearest name; empty if none is near."""
        near = self.names.search(label[:100], 1)
        return f" Did you mean {near[0].matched!r}?" if near else ""

    def language(self, language: str | None) -> str | None:
        """Return the language if the vocabulary has it, else None."""
        return language if language in self.tagger.vocab_.languages else None


class ModelHolder:
    """Holds the model in use, at first `first`, and replaces it when its folder changes.

    Without a folder the model never changes; the folder may be a link to one.
    """

    def __init__(
        self, load: Callable[[Path], LoadedModel], folder: Path | None, first: LoadedModel | None = None
    ) -> None:
        self._load = load
        self._folder = folder
        self._seen: Identity | None = {}  # no folder is like that
        self._lock = threading.Lock()
        self._missing = "The model is being loaded."  # why there is none
        self.current_or_none = first

    @property
    def current(self) -> LoadedModel:
        """The model in use; a problem if there is none, or its files were overwritten."""
        loaded = self.current_or_none
        if loaded is None:
            raise ProblemError("not-ready", f"{self._missing} Try again in a moment.", headers={"Retry-After": "1"})
        loaded.check()
        return loaded

    @property
    def intact(self) -> LoadedModel | None:
        """The model in use; None if there is none, or its files were overwritten."""
        loaded = self.current_or_none
        return None if loaded is None or loaded.is_overwritten() else loaded

    @property
    def tagger(self) -> Tagger:
        """The Tagger in use."""
        return self.current.tagger

    @property
    def name(self) -> str:
        """Short hash of the model in use."""
        return self.current.name

    def exchange(self, expected: Tagger, new: Tagger) -> bool:
        """Replace the Tagger in use by one that has learned more, unless it is no longer the expected one."""
        with self._lock:
            current = self.current_or_none
            if current is None or current.tagger is not expected:
                return False
            if new is not expected:
                self.current_or_none = replace(current, tagger=new)
            return True

    def refresh(self) -> bool:
        """Load the folder if it changed since the last call; return whether there is a new model.

        A folder that is missing or cannot be loaded raises, and the old model stays in use. A missing or damaged folder
        is tried again when it changes; other failures, such as a full disk, may pass, and are tried again by the next
        call.
        """
        if self._folder is None:
            return False
        now = _identity(self._folder)
        if now == self._seen:
            return False
        self._seen = now
        if now is None:
            self._missing = "There is no model in the folder yet."
            raise StorageError("there must be a model", path=self._folder, hint="The service waits for one.")
        self._missing = "The model could not be loaded; the log of the service says why."
        try:
            loaded = self._load(self._folder)
            # Only mapped files keep their numbers: that of the golden rows may go to a file of the next model.
            before = {name: now[name] for name in now if name not in (MANIFEST, GOLDEN)}
            after = _identity(self._folder) or {}
            if any(after.get(name, known) != known and after[name][0] == known[0] for name, known in before.items()):
                raise StorageError("files were overwritten while they were read", path=self._folder)
            # A folder that was replaced meanwhile is not known; the numbers of its files may be used again.
            if after == now:
                loaded.files = {self._folder / name: known for name, known in before.items()}
            with self._lock:
                self.current_or_none = loaded
        except TagwoodError:
            # Arrays that were overwritten in place are those of the model in use: its answers cannot be trusted, and
            # reading beyond the end of a shorter file ends the process.
            if self.current_or_none is not None and self.current_or_none.is_overwritten():
                self.current_or_none = None
            raise
        except Exception:
            self._seen = {}
            raise
        return True


class ServiceState:
    """Model, threads, journals and counts of a project in one worker; `language` is that of its texts, if given."""

    def __init__(
        self,
        settings: ServiceSettings,
        holder: ModelHolder,
        metrics: ServiceMetrics,
        log: EventLog,
        *,
        project: str = "model",
        language: str | None = None,
        candidate: Candidate | None = None,
        candidate_holder: ModelHolder | None = None,
    ) -> None:
        self.settings = settings
        self.holder = holder
        self.metrics = metrics
        self.log = log
        self.project = project
        self.language = language
        self.candidate = candidate
        self.candidate_holder = candidate_holder
        self.traffic = Traffic(metrics.projects[project])
        self.failure: Exception | None = None  # why the last load failed, if not because of the folder

    def models_for(self, request_id: str) -> tuple[LoadedModel, LoadedModel | None]:
        """Return the model that answers a request, and the one whose answer is compared with it, if any.

        The request id decides, so that a client that repeats its id gets the same model again. A candidate whose files
        were overwritten is left out.
        """
        current = self.holder.current
        other = None if self.candidate_holder is None else self.candidate_holder.intact
        if self.candidate is None or other is None or crc32(request_id.encode()) >= self.candidate.share * 2**32:
            return current, None
        return (current, other) if self.candidate.shadow else (other, current)

    @property
    def sends_candidate(self) -> bool:
        """Whether some answers are those of the candidate."""
        return self.candidate is not None and not self.candidate.shadow

    def named_model(self, name: str | None, labels: Sequence[str | int] = (), pointer: str = "#") -> LoadedModel:
        """Return the model whose answer a client is speaking about: the one it names, or else the one in use.

        A model that is gone is a problem; so are row ids among `labels` where two models answer and none is named.
        """
        current = self.holder.current
        if name is None:
            numbers = any(isinstance(label, int) for label in labels) and has_row_ids(current.tagger.vocab_)
            if numbers and self.sends_candidate:
                detail = (
                    "Two models answer here, and a number may be another label in each. "
                    "Send the 'model' of the answer, too, or names of labels."
                )
                raise ProblemError.at(pointer, detail, "conflict")
            return current
        for loaded in (current, None if self.candidate_holder is None else self.candidate_holder.intact):
            if loaded is not None and loaded.name == name:
                return loaded
        detail = (
            f"The model {name[:64]!r} is not in use here (any more). "
            "Ask for suggestions again, or send names of labels without 'model'."
        )
        raise ProblemError.at(pointer, detail, "conflict")

    def compare(self, other: LoadedModel, texts: list[str], options: TagOptions, results: list[dict[str, Any]]) -> None:
        """Answer texts with another model, in a thread, and count how well the answers agree."""

        def work() -> None:
            try:
                other.check()
                found = tag_texts(other.tagger, texts, options)
                other.check()
                self.traffic.compared(results, found)
            except Exception as error:  # nobody waits for it
                self.log.failure("comparison", error)

        self.pool.submit(work)

    def open(self) -> None:
        """Start the threads and open the journals; the state can be opened again after `close`."""
        settings = self.settings
        kept = settings.filters or settings.run_folder
        self.filters = FilterStore(None if kept is None else kept / "filters" / self.project)
        self.metrics.filter_ages[self.project] = self.filters.ages
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="work")
        self.batcher = RequestBatcher(
            self.pool,
            enabled=settings.batch_requests,
            observe=self.metrics.batch,
            time_stage=self.metrics.stage,
        )
        self.feedback = None if settings.feedback is None else Journal(settings.feedback)
        self.corrections = None if settings.corrections is None else Journal(settings.corrections)
        self.queue = None if settings.queue is None else ReviewQueue(settings.queue, settings.limits.text_chars)
        self.learning = LiveLearning(settings.feedback, self.holder) if settings.learn and settings.feedback else None

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that would block the event loop in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, lambda: work(*args, **kwargs))

    async def tag(self, loaded: LoadedModel, texts: list[str], options: TagOptions) -> list[dict[str, Any]]:
        """Return the labels of each text by a model, whose files were not changed meanwhile."""
        try:
            results = await self.batcher.tag(loaded.tagger, texts, options)
        except Exception:
            loaded.check()  # overwritten arrays cause errors of any kind
            raise
        loaded.check()
        return results

    async def up_to_date(self) -> LoadedModel:
        """Return the model in use, after it has learned what other workers were taught."""
        if self.learning is not None and self.learning.is_behind():
            await self.in_thread(self.learning.catch_up)
        return self.holder.current

    async def refresh(self) -> None:
        """Load model folders that changed; a failure of any kind is logged and counted, and the old model stays."""
        self.failure = None
        for holder in (self.holder, self.candidate_holder):
            if holder is not None:
                await self._refresh(holder)

    async def _refresh(self, holder: ModelHolder) -> None:
        role = {} if holder is self.holder else {"role": "candidate"}
        try:
            if await self.in_thread(holder.refresh):
                loaded = holder.current
                self.metrics.add("reloads")
                self.metrics.set_model(holder, loaded.loaded_at, loaded.saved_at)
                if holder is self.holder:
                    self.metrics.projects[self.project].set_training(loaded.tagger.figures_)
                self.log.event("model", model=loaded.name, project=self.project, **role)
        except Exception as error:  # a full disk, too little memory, no thread: the watch must go on
            self.metrics.add("reload_failures")
            kind = ""
            if not isinstance(error, TagwoodError):
                self.failure, kind = error, f"{type(error).__name__}: "
            self.log.event("model not loaded", project=self.project, reason=f"{kind}{error}", **role)

    async def watch(self) -> None:
        """Check for a new model periodically."""
        while True:
            await asyncio.sleep(self.settings.reload_seconds)
            await self.refresh()

    def close(self) -> None:
        """Finish writing and stop the threads."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        del self.metrics.filter_ages[self.project]
        self.filters.close()
        for journal in (self.feedback, self.corrections):
            if journal is not None:
                journal.close()


def state_of(request: Request) -> ServiceState:
    """Return the state of the project that a request names, in its path or as parameter `project`; else the first."""
    named = request.path_params.get("project_id")
    if named is None and request.scope["query_string"]:
        named = request.query_params.get("project")
    projects: dict[str, ServiceState] = request.app.state.projects
    if named is None:
        return next(iter(projects.values()))
    if named not in projects:
        raise ProblemError("not-found", f"Project {named[:100]!r} not found")
    return projects[named]


def _identity(folder: Path) -> Identity | None:
    """Return what changes when a model is saved to a folder or its files are overwritten; None without a model."""
    try:
        files = {entry.name: entry.stat() for entry in os.scandir(folder) if entry.is_file()}
    except OSError:
        return None
    if MANIFEST not in files:
        return None
    return {name: (info.st_ino, info.st_mtime_ns, info.st_size) for name, info in files.items()}


def _passport(manifest: Manifest | None) -> dict[str, Any]:
    """Return the passport without anything about the folders of this machine."""
    if manifest is None:
        return {}
    names = ("created", "notes", "seed", "training_seconds", "fingerprint", "versions", "format_version")
    return {**{name: getattr(manifest, name) for name in names}, "bytes": manifest.folder_bytes}
