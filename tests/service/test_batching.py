import asyncio
import contextlib
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from tagwood.errors import InputError
from tagwood.service.batching import RequestBatcher, TagOptions, as_json


def run(tagger, requests, *, enabled=True):
    """Ask all requests at once; return the answers and the sizes of the batches."""
    sizes = []

    async def work():
        with ThreadPoolExecutor(1) as pool:
            batcher = RequestBatcher(pool, enabled=enabled, observe=sizes.append)
            return await asyncio.gather(
                *(batcher.tag(tagger, texts, options) for texts, options in requests),
                return_exceptions=True,
            )

    return asyncio.run(work()), sizes


REQUESTS = [([f"oak {number}", "sea"][: 1 + number % 2], TagOptions(k=1 + number % 3)) for number in range(30)]


@pytest.mark.parametrize("enabled", [True, False])
def test_answers_equal_those_of_single_requests(tagger, enabled):
    answers, sizes = run(tagger, REQUESTS, enabled=enabled)
    for (texts, options), answer in zip(REQUESTS, answers, strict=True):
        assert answer == [as_json(tags, tagger.vocab_) for tags in tagger.tag(texts, options.k)]
    assert sum(sizes) == sum(len(texts) for texts, _ in REQUESTS)


def test_requests_with_equal_options_are_answered_together(tagger):
    _, sizes = run(tagger, [(["oak"], TagOptions())] * 20)
    assert sizes == [20]
    _, sizes = run(tagger, REQUESTS)
    assert len(sizes) == 3  # one for each k
    _, sizes = run(tagger, [(["oak"], TagOptions())] * 20, enabled=False)
    assert sizes == [1] * 20


def test_batches_have_a_largest_size(tagger):
    _, sizes = run(tagger, [(["oak"], TagOptions())] * 150)
    assert sizes == [64, 64, 22]
    _, sizes = run(tagger, [(["oak " * 5000], TagOptions())] * 4)
    assert sizes == [2, 2]


def test_a_request_that_is_alone_is_answered_in_the_same_turn(tagger):
    async def work():
        with ThreadPoolExecutor(1) as pool:
            batcher = RequestBatcher(pool)
            batcher.is_alone = lambda: True
            asking = batcher.tag(tagger, ["oak"], TagOptions())
            try:
                asking.send(None)  # one step, without the loop
            except StopIteration as answer:
                return answer.value

    assert asyncio.run(work())[0]["labels"]


def test_an_idle_service_does_not_wait(tagger):
    async def work():
        turns = 0

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        with ThreadPoolExecutor(1) as pool:
            batcher = RequestBatcher(pool)
            counting = asyncio.create_task(count())
            await batcher.tag(tagger, ["oak"], TagOptions())
            counting.cancel()
        return turns

    assert asyncio.run(work()) <= 6  # turns of the loop, no clock


def test_long_work_leaves_the_loop_free(tagger):
    async def work():
        with ThreadPoolExecutor(1) as pool:
            batcher = RequestBatcher(pool)
            batcher._seconds_per_unit = 1.0  # as if the model were slow
            asking = asyncio.create_task(batcher.tag(tagger, ["oak"], TagOptions()))
            turns = 0
            while not asking.done():
                turns += 1
                await asyncio.sleep(0)
            return turns, await asking

    turns, answer = asyncio.run(work())
    assert turns > 3
    assert answer[0]["labels"]


def test_an_error_reaches_only_the_requests_of_its_batch(tagger):
    answers, _ = run(
        tagger, [(["oak"], TagOptions()), (["oak"], TagOptions(promise="nonsense")), (["sea"], TagOptions())]
    )
    assert isinstance(answers[1], InputError)
    assert answers[0][0]["labels"]
    assert answers[2][0]["labels"]


@pytest.mark.parametrize("alone", [True, False])
def test_a_failed_request_does_not_keep_its_model_until_the_garbage_collector_runs(alone):
    class Broken:
        probabilities_ = None
        vocab_ = ()

        def tag(self, texts, **options):
            raise InputError("no answer")

    async def request(batcher, model):
        await batcher.tag(model, ["oak"], TagOptions())

    async def work(slow):
        with ThreadPoolExecutor(1) as pool:
            batcher, model = RequestBatcher(pool), Broken()
            batcher.is_alone = lambda: alone
            batcher._seconds_per_unit = float(slow)
            with contextlib.suppress(InputError):
                await request(batcher, model)
            return weakref.ref(model)

    gc.disable()
    try:
        assert [asyncio.run(work(slow))() for slow in (False, True)] == [None, None]
    finally:
        gc.enable()


def test_a_cancelled_request_does_not_affect_others(tagger):
    async def work():
        with ThreadPoolExecutor(1) as pool:
            batcher = RequestBatcher(pool)
            asking = [asyncio.create_task(batcher.tag(tagger, ["oak"], TagOptions())) for _ in range(3)]
            await asyncio.sleep(0)
            asking[1].cancel()
            return await asyncio.gather(*asking, return_exceptions=True)

    first, second, third = asyncio.run(work())
    assert first == third
    assert isinstance(second, asyncio.CancelledError)
