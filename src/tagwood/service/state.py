"""`ServiceState`: what the routes of one worker share. In: settings and a model. Out: answers for the routes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from tagwood.errors import TagwoodError
from tagwood.service.batching import RequestBatcher
from tagwood.service.journal import Journal
from tagwood.service.loaded_model import ModelHolder
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.settings import ServiceSettings

P = ParamSpec("P")
T = TypeVar("T")


class ServiceState:
    """Model, threads, journals and counts of one worker.

    Parameters
    ----------
    settings
        Settings of the service.
    holder
        The model in use.
    metrics, log
        Counts and events.
    """

    def __init__(
        self, settings: ServiceSettings, holder: ModelHolder, metrics: ServiceMetrics, log: EventLog
    ) -> None:
        self.settings = settings
        self.holder = holder
        self.metrics = metrics
        self.log = log

    def open(self) -> None:
        """Start the threads and open the journals; the state can be opened again after `close`."""
        settings = self.settings
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="work")
        self.batcher = RequestBatcher(self.pool, enabled=settings.batch_requests, observe=self.metrics.batch)
        self.feedback = None if settings.feedback is None else Journal(settings.feedback)
        self.corrections = None if settings.corrections is None else Journal(settings.corrections)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that would block the event loop in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, lambda: work(*args, **kwargs))

    async def refresh(self) -> None:
        """Load the model folder if it changed; a folder that cannot be loaded is logged and otherwise ignored."""
        try:
            if await self.in_thread(self.holder.refresh):
                self.metrics.add("reloads")
                self.metrics.set_model_loaded(self.holder.current.loaded_at)
                self.log.event("model", model=self.holder.current.name)
        except TagwoodError as error:
            self.metrics.add("reload_failures")
            self.log.event("model not loaded", reason=str(error))

    async def watch(self) -> None:
        """Check for a new model periodically."""
        while True:
            await asyncio.sleep(self.settings.reload_seconds)
            await self.refresh()

    def close(self) -> None:
        """Finish writing and stop the threads."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        for journal in (self.feedback, self.corrections):
            if journal is not None:
                journal.close()


def state_of(request: Request) -> ServiceState:
    """Return the state of the service that received a request."""
    state: ServiceState = request.app.state.service
    return state
