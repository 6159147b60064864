"""`Gatherer`: questions that come at the same time are answered together. In: texts and options. Out: JSON values.

Decisions: nobody waits for company. A question is put on a list, and the list is worked off in the next turn but one of
the event loop: until then, the loop takes in what other connections have already sent. A request that is alone is
answered at once, others in batches. What is expected to take long (measured, per character) goes to a thread, so that
the loop stays free; short work is done in the loop, because handing it over costs more than the work itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from time import perf_counter
from typing import Any, NamedTuple

from tagwood.service.loaded import Loaded
from tagwood.tagger import Tags

_BATCH_TEXTS = 64
_BATCH_WORK = 40_000  # characters, see `work_of`
_LONG = 0.004  # seconds that the event loop may be held up


class Options(NamedTuple):
    """What is asked of every text; label ids instead of names."""

    k: int = 5
    threshold: float | None = None
    promise: str | None = None
    restrict: tuple[int, ...] | None = None
    exclude: tuple[int, ...] = ()
    language: str | None = None


class _Question(NamedTuple):
    loaded: Loaded
    options: Options
    texts: list[str]
    answer: asyncio.Future[list[dict[str, Any]]]


class Gatherer:
    """Answers questions in batches.

    Parameters
    ----------
    pool
        Threads for long work.
    gather
        False: every question is a batch of its own.
    observe
        Called with the number of texts of each batch.
    """

    def __init__(
        self, pool: Executor, *, gather: bool = True, observe: Callable[[int], None] | None = None
    ) -> None:
        self._pool = pool
        self._gather = gather
        self._observe = observe
        self.alone: Callable[[], bool] = lambda: (
            False
        )  # whether no other request is in work; the worker knows
        self._waiting: list[_Question] = []
        self._seconds_per_unit = 1e-6

    async def ask(self, loaded: Loaded, texts: list[str], options: Options) -> list[dict[str, Any]]:
        """Return the labels of each text."""
        loop = asyncio.get_running_loop()
        question = _Question(loaded, options, texts, loop.create_future())
        if not self._gather or (not self._waiting and self.alone()):
            self._start([question])
        else:
            if not self._waiting:
                loop.call_soon(loop.call_soon, self._work_off)
            self._waiting.append(question)
        return await question.answer

    def _work_off(self) -> None:
        waiting, self._waiting = self._waiting, []
        batches: dict[tuple[int, Options], list[list[_Question]]] = {}
        for question in waiting:
            parts = batches.setdefault((id(question.loaded), question.options), [[]])
            if parts[-1] and not _fits(parts[-1], question):
                parts.append([])
            parts[-1].append(question)
        for parts in batches.values():
            for batch in parts:
                self._start(batch)

    def _start(self, batch: list[_Question]) -> None:
        """Answer a batch: here if it is quick, else in a thread."""
        loaded, options = batch[0].loaded, batch[0].options
        batch = [question for question in batch if not question.answer.done()]  # the client may be gone
        texts = [text for question in batch for text in question.texts]
        if self._observe is not None:
            self._observe(len(texts))
        if is_quick(loaded, options) and self._seconds_per_unit * work_of(texts, options) < _LONG:
            try:
                _hand_out(batch, self._answer(loaded, texts, options))
            except Exception as error:
                _fail(batch, error)
            return
        task = asyncio.get_running_loop().run_in_executor(self._pool, self._answer, loaded, texts, options)
        task.add_done_callback(lambda done: _finish(batch, done))

    def _answer(self, loaded: Loaded, texts: list[str], options: Options) -> list[dict[str, Any]]:
        start = perf_counter()
        tags = loaded.tagger.tag(
            texts,
            options.k,
            threshold=options.threshold,
            promise=options.promise,
            restrict=options.restrict,
            exclude=options.exclude,
            language=options.language,
        )
        spent = (perf_counter() - start) / work_of(texts, options)
        self._seconds_per_unit += 0.05 * (spent - self._seconds_per_unit)
        return [as_json(found) for found in tags]


def as_json(tags: Tags) -> dict[str, Any]:
    """Return the labels of one text as JSON values."""
    labels = [{"id": tag.label, "name": tag.name, "uri": tag.uri, "score": tag.score} for tag in tags]
    return {"labels": labels, "review": tags.review}


def work_of(texts: list[str], options: Options) -> int:
    """Return the size of a batch: characters, and some for each text and named label."""
    return sum(map(len, texts)) + 200 * len(texts) + 10 * (len(options.restrict or ()) + len(options.exclude))


def is_quick(loaded: Loaded, options: Options) -> bool:
    """Whether nothing has to be prepared first, such as the rule of a promise nobody asked for yet."""
    known = loaded.tagger.probabilities_
    return options.promise is None or known is None or options.promise in known.rules


def _fits(batch: list[_Question], question: _Question) -> bool:
    texts = [text for one in (*batch, question) for text in one.texts]
    return len(texts) <= _BATCH_TEXTS and sum(map(len, texts)) <= _BATCH_WORK


def _hand_out(batch: list[_Question], answers: list[dict[str, Any]]) -> None:
    place = 0
    for question in batch:
        end = place + len(question.texts)
        if not question.answer.done():
            question.answer.set_result(answers[place:end])
        place = end


def _fail(batch: list[_Question], error: BaseException) -> None:
    for question in batch:
        if not question.answer.done():
            question.answer.set_exception(error)


def _finish(batch: list[_Question], done: asyncio.Future[list[dict[str, Any]]]) -> None:
    if done.cancelled():
        for question in batch:
            question.answer.cancel()
    elif (error := done.exception()) is not None:
        _fail(batch, error)
    else:
        _hand_out(batch, done.result())
