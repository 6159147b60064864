"""`RequestBatcher`: requests that arrive at the same time are tagged together. In: texts and options. Out: JSON values.

Decisions: no request waits for others to arrive. Requests are queued, and the queue is processed two turns of the event
loop later, so that the loop can first read what other connections have already sent. A request that is alone is
answered immediately. Batches that are expected to take long (measured per character) go to a thread, so that the loop
stays responsive; short ones run in the loop, because a thread switch costs more than the work itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from tagwood.data.vocab import LabelVocab
from tagwood.models.label_filter import LabelFilter
from tagwood.tagger import Tagger, Tags

_MAX_TEXTS = 64
_MAX_CHARS = 40_000
_MAX_BLOCKING = 0.004  # seconds for which a batch may block the event loop


class TagOptions(NamedTuple):
    """Options that all texts of a batch share; labels are rows of the label table."""

    k: int = 5
    threshold: float | None = None
    promise: str | None = None
    restrict: tuple[int, ...] | None = None
    exclude: tuple[int, ...] | None = None
    language: str | None = None
    allowed: LabelFilter | None = None  # labels in all named filters of the request


@dataclass(slots=True)
class _Job:
    tagger: Tagger
    options: TagOptions
    texts: list[str]
    answer: asyncio.Future[list[dict[str, Any]]]
    begun: float


class RequestBatcher:
    """Tags texts in batches; long batches run in `pool`.

    `observe` is called with the number of texts of each batch, `time_stage` with the seconds that a request waited
    (``"queue"``) and that a batch took (``"tag"``). If not `enabled`, every request is a batch of its own.
    """

    def __init__(
        self,
        pool: Executor,
        *,
        enabled: bool = True,
        observe: Callable[[int], None] = lambda size: None,
        time_stage: Callable[[str, float], None] = lambda stage, seconds: None,
    ) -> None:
        self._pool = pool
        self._enabled = enabled
        self._observe = observe
        self._time_stage = time_stage
        self.is_alone: Callable[[], bool] = lambda: False  # the worker knows whether other requests are open
        self._queue: list[_Job] = []
        self._seconds_per_unit = 1e-6

    async def tag(self, tagger: Tagger, texts: list[str], options: TagOptions) -> list[dict[str, Any]]:
        """Return the labels of each text."""
        loop = asyncio.get_running_loop()
        job = _Job(tagger, options, texts, loop.create_future(), perf_counter())
        if not self._enabled or (not self._queue and self.is_alone()):
            self._start([job])
        else:
            if not self._queue:
                loop.call_soon(loop.call_soon, self._process_queue)
            self._queue.append(job)
        try:
            return await job.answer
        except Exception:
            del job.answer  # holds the error, whose frames hold the job: a cycle that would keep the model in memory
            raise

    def _process_queue(self) -> None:
        queue, self._queue = self._queue, []
        batches: dict[tuple[int, TagOptions], list[list[_Job]]] = {}
        for job in queue:
            parts = batches.setdefault((id(job.tagger), job.options), [[]])
            if parts[-1] and not _fits(parts[-1], job):
                parts.append([])
            parts[-1].append(job)
        for parts in batches.values():
            for batch in parts:
                self._start(batch)

    def _start(self, batch: list[_Job]) -> None:
        """Answer a batch: in the event loop if it is quick, else in a thread."""
        tagger, options = batch[0].tagger, batch[0].options
        batch = [job for job in batch if not job.answer.done()]  # a client may have disconnected
        texts = [text for job in batch for text in job.texts]
        self._observe(len(texts))
        now = perf_counter()
        for job in batch:
            self._time_stage("queue", now - job.begun)
        if is_prepared(tagger, options) and self._seconds_per_unit * work_of(texts, options) < _MAX_BLOCKING:
            try:
                _set_answers(batch, self._tag(tagger, texts, options))
            except Exception as error:
                _set_error(batch, error)
            return
        task = asyncio.get_running_loop().run_in_executor(self._pool, self._tag, tagger, texts, options)
        task.add_done_callback(lambda done: _finish(batch, done))

    def _tag(self, tagger: Tagger, texts: list[str], options: TagOptions) -> list[dict[str, Any]]:
        start = perf_counter()
        answers = tag_texts(tagger, texts, options)
        spent = perf_counter() - start
        self._time_stage("tag", spent)
        self._seconds_per_unit += 0.05 * (spent / work_of(texts, options) - self._seconds_per_unit)
        return answers


def tag_texts(tagger: Tagger, texts: list[str], options: TagOptions) -> list[dict[str, Any]]:
    """Return the labels of each text as JSON values."""
    given = options._asdict()
    allowed = given.pop("allowed")
    for name in ("restrict", "exclude"):
        if given[name] is not None:
            given[name] = LabelFilter.of(given[name], len(tagger.vocab_))
    if allowed is not None:
        given["restrict"] = allowed if given["restrict"] is None else allowed & given["restrict"]
    return [as_json(found, tagger.vocab_) for found in tagger.tag(texts, **given)]


def as_json(tags: Tags, vocab: LabelVocab) -> dict[str, Any]:
    """Return the labels of one text as JSON values; `id` is the number a label is called by (`LabelVocab.number`)."""
    tuples = vocab.id_kind == "tuple"
    labels = [
        {
            "id": vocab.find(tag.uri or "") if tuples else tag.label,
            "name": tag.name,
            "uri": tag.uri,
            "score": tag.score,
        }
        for tag in tags
    ]
    return {"labels": labels, "review": tags.review}


def work_of(texts: list[str], options: TagOptions) -> int:
    """Return the size of a batch: its characters, plus a constant per text and per named label."""
    return sum(map(len, texts)) + 200 * len(texts) + 10 * (len(options.restrict or ()) + len(options.exclude or ()))


def is_prepared(tagger: Tagger, options: TagOptions) -> bool:
    """Whether nothing must be fitted first: the rule of a promise is fitted when it is first used."""
    known = tagger.probabilities_
    return options.promise is None or known is None or options.promise in known.rules


def _fits(batch: list[_Job], job: _Job) -> bool:
    texts = [text for one in (*batch, job) for text in one.texts]
    return len(texts) <= _MAX_TEXTS and sum(map(len, texts)) <= _MAX_CHARS


def _set_answers(batch: list[_Job], answers: list[dict[str, Any]]) -> None:
    begin = 0
    for job in batch:
        end = begin + len(job.texts)
        if not job.answer.done():
            job.answer.set_result(answers[begin:end])
        begin = end


def _set_error(batch: list[_Job], error: BaseException) -> None:
    for job in batch:
        if not job.answer.done():
            job.answer.set_exception(error)


def _finish(batch: list[_Job], done: asyncio.Future[list[dict[str, Any]]]) -> None:
    if done.cancelled():
        for job in batch:
            job.answer.cancel()
    elif (error := done.exception()) is not None:
        _set_error(batch, error)
    else:
        _set_answers(batch, done.result())
