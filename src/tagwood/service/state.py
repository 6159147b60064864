"""`ServiceState`: what the routes of one worker share. In: settings and a model. Out: answers for the routes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from tagwood.errors import TagwoodError
from tagwood.service.batching import Gatherer
from tagwood.service.journal import Journal
from tagwood.service.loaded import ModelHolder
from tagwood.service.observability import Log, Telemetry
from tagwood.service.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


class ServiceState:
    """Model, threads, journals and counts of one worker.

    Parameters
    ----------
    settings
        Of the service.
    holder
        The model in use.
    telemetry, log
        Counts and events.
    """

    def __init__(self, settings: Settings, holder: ModelHolder, telemetry: Telemetry, log: Log) -> None:
        self.settings = settings
        self.holder = holder
        self.telemetry = telemetry
        self.log = log

    def open(self) -> None:
        """Get threads and journals; after `close`, this begins anew."""
        settings = self.settings
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="work")
        self.gatherer = Gatherer(self.pool, gather=settings.gather, observe=self.telemetry.batch)
        self.feedback = None if settings.feedback is None else Journal(settings.feedback)
        self.corrections = None if settings.corrections is None else Journal(settings.corrections)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what takes longer than a moment outside the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, lambda: work(*args, **kwargs))

    async def refresh(self) -> None:
        """Load the model folder if it changed; a folder that cannot be loaded is logged and left aside."""
        try:
            if await self.in_thread(self.holder.refresh):
                self.telemetry.add("reloads")
                self.telemetry.set("model_loaded_seconds", self.holder.current.loaded_at)
                self.log.event("model", model=self.holder.current.name)
        except TagwoodError as error:
            self.telemetry.add("reload_failures")
            self.log.event("model not loaded", reason=str(error))

    async def watch(self) -> None:
        """Look for a new model again and again."""
        while True:
            await asyncio.sleep(self.settings.reload_seconds)
            await self.refresh()

    def close(self) -> None:
        """Finish what is being written and let the threads go."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        for journal in (self.feedback, self.corrections):
            if journal is not None:
                journal.close()


def state_of(request: Request) -> ServiceState:
    """Return the state of the service that got a request."""
    state: ServiceState = request.app.state.service
    return state
