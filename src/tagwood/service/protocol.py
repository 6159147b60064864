"""`CarefulProtocol`: uvicorn's HTTP parser with clocks and a size for headers. In: bytes. Out: requests.

Bodies have a limit and a clock of their own (`bodies`), which answer in words; the clocks here also end connections
that send nothing, or headers without end.
"""

from __future__ import annotations

import asyncio
import os
from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tagwood.service.problems import PROBLEMS, ProblemError, problem_response

_HEADER_BYTES = 65_536
_GRACE = 5.0  # seconds in which a route may still answer a slow body


class CarefulProtocol(HttpToolsProtocol):
    """One connection."""

    header_seconds = 15.0
    body_seconds = 20.0
    _clock: TimerHandle | None = None
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock for the first request."""
        super().connection_made(transport)
        self._wind(self.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._wind(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start the clock for the headers."""
        self._size = 0
        self._wind(self.header_seconds)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the address as a header."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the clock for the body."""
        self._wind(self.body_seconds + _GRACE)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop the clock: the rest is ours."""
        self._wind(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too large headers."""
        kind = "headers-too-large" if self._size > _HEADER_BYTES else "invalid-request"
        status = PROBLEMS[kind].status if kind == "headers-too-large" else 400
        response = problem_response(ProblemError(kind, msg), os.urandom(8).hex())
        phrase = b"Bad Request" if status == 400 else b"Request Header Fields Too Large"
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n" % (
            status,
            phrase,
            len(response.body),
        )
        body = bytes(response.body).replace(b'"status":422', b'"status":%d' % status)
        self.transport.write(head + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > _HEADER_BYTES:
            raise ValueError("headers too large")  # the parser turns it into an error of its own

    def _wind(self, seconds: float | None) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._clock = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
