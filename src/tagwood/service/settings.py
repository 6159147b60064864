"""`ServiceSettings` and `RequestLimits`: what the operator decides. In: options of `serve`. Out: frozen values."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tagwood._check import check_float, check_int
from tagwood.errors import InputError

NO_MODEL = 3  # exit code of a worker that could not load the model
GRACEFUL = 20  # seconds that open requests get when the service stops
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request; a request beyond them is refused with the status in parentheses.

    Parameters
    ----------
    body_bytes
        Size of the body (413).
    text_chars
        Characters per text (422).
    texts
        Texts per request (422).
    k
        Labels per text (422).
    labels
        Labels in `restrict`, `exclude` or feedback (422).
    concurrent
        Open requests per worker process (429).
    body_seconds
        Time to send the body (408).
    """

    body_bytes: int = 10_000_000
    text_chars: int = 200_000
    texts: int = 1_000
    k: int = 100
    labels: int = 10_000
    concurrent: int = 256
    body_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name in ("body_bytes", "text_chars", "texts", "k", "labels", "concurrent"):
            check_int(getattr(self, name), f"the limit {name}", low=1)
        check_float(self.body_seconds, "the limit body_seconds", above=0.0)


@dataclass(frozen=True)
class ServiceSettings:
    """How a service runs.

    Parameters
    ----------
    limits
        Limits of one request.
    token
        Bearer token required by /v1 and /metrics; None: no token is required.
    origins
        Origins of other web sites that may call the service (CORS), such as ``https://library.example``.
    hosts
        Accepted values of the Host header; empty: any. A service on a loopback address needs them: otherwise a web
        site whose name resolves to 127.0.0.1 could read the answers (DNS rebinding).
    feedback
        File to which feedback is appended; None: feedback is refused.
    corrections
        File to which corrections of groups are appended; None: they are refused.
    batch_requests
        Whether requests that arrive at the same time are answered together.
    threads
        Threads of one worker for large batches.
    reload_seconds
        How often to check the model folder for a new model; 0: never.
    log_texts
        Whether texts are written to the log.
    run_folder
        Folder shared by the workers while the service runs; None: there is one worker only.
    """

    limits: RequestLimits = field(default_factory=RequestLimits)
    token: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    feedback: Path | None = None
    corrections: Path | None = None
    batch_requests: bool = True
    threads: int = 1
    reload_seconds: float = 2.0
    log_texts: bool = False
    run_folder: Path | None = None

    def __post_init__(self) -> None:
        check_int(self.threads, "threads", low=1)
        check_float(self.reload_seconds, "reload_seconds", low=0.0)
        token = self.token
        if token is not None and not (token.isascii() and token.isprintable() and len(token) >= 8):
            raise InputError(
                "the token must have at least 8 printable ASCII characters",
                given=f"{len(token)} characters",
                hint="Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
            )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise InputError(
                    "an origin must be a scheme and a host",
                    given=repr(origin),
                    hint="For example https://library.example",
                )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, to be sent to a worker process."""
        return {
            name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ServiceSettings:
        """Rebuild the settings from the values of `to_dict`."""
        return TypeAdapter(ServiceSettings).validate_python(values)
