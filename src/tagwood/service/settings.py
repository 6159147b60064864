"""`ServiceSettings` and `RequestLimits`: what the operator decides. In: options of `serve`. Out: frozen values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tagwood._check import check_float, check_int
from tagwood.errors import InputError

NO_MODEL = 3  # exit code of a worker that could not load the model
COUNTS = "counts.bin"  # file of the counts in the run folder
GRACEFUL = 20  # seconds that open requests get when the service stops
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request; a request beyond them is refused with the status in parentheses."""

    body_bytes: int = 10_000_000  # size of the body (413)
    text_chars: int = 200_000  # characters per text (422)
    texts: int = 1_000  # texts per request (422)
    k: int = 100  # labels per text (422)
    labels: int = 10_000  # labels in `restrict`, `exclude` or feedback (422)
    concurrent: int = 256  # open requests per worker process (429)
    body_seconds: float = 20.0  # time to send the body (408)

    def __post_init__(self) -> None:
        for name in ("body_bytes", "text_chars", "texts", "k", "labels", "concurrent"):
            check_int(getattr(self, name), f"the limit {name}", low=1)
        check_float(self.body_seconds, "the limit body_seconds", above=0.0)


@dataclass(frozen=True)
class Candidate:
    """A second model that answers a share of the requests beside the one in use."""

    folder: Path
    share: float = 0.1  # of requests
    shadow: bool = True  # whether its answers are only compared; otherwise they are sent

    def __post_init__(self) -> None:
        check_float(self.share, "the share of the candidate", low=0.0, high=1.0)


@dataclass(frozen=True)
class ServedModel:
    """A model folder that is served, and what belongs to it alone."""

    folder: Path
    feedback: Path | None = None  # see `ServiceSettings`
    corrections: Path | None = None
    language: str | None = None  # language of the texts; default: as detected from the texts that the model keeps
    candidate: Candidate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, to be sent to a worker process."""
        return TypeAdapter(ServedModel).dump_python(self, mode="json")  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ServedModel:
        """Rebuild from the values of `to_dict`."""
        return TypeAdapter(ServedModel).validate_python(values)


@dataclass(frozen=True)
class ServiceSettings:
    """How a service runs."""

    limits: RequestLimits = field(default_factory=RequestLimits)  # limits of one request
    token: str | None = None  # bearer token required by /v1 and /metrics; None: no token is required
    # Origins of other web sites that may call the service (CORS), such as ``https://library.example``
    origins: tuple[str, ...] = ()
    # Accepted values of the Host header; empty: any. A service on a loopback address needs them: otherwise a
    # web site whose name resolves to 127.0.0.1 could read the answers (DNS rebinding)
    hosts: tuple[str, ...] = ()
    feedback: Path | None = None  # file to which feedback is appended; None: feedback is refused
    # File to which corrections of groups are appended; None: they are refused
    corrections: Path | None = None
    queue: Path | None = None  # file of texts that wait for review; needs `feedback`
    learn: bool = False  # whether requests may teach the model in use; needs `feedback`
    batch_requests: bool = True  # whether requests that arrive at the same time are answered together
    threads: int = 1  # threads of one worker for large batches
    reload_seconds: float = 2.0  # how often to check the model folder for a new model; 0: never
    log_texts: bool = False  # whether texts are written to the log
    filters: Path | None = None  # folder that keeps named filters; None: they are lost when the service stops
    # Folder shared by the workers while the service runs; None: there is one worker only
    run_folder: Path | None = None
    # Whether the service runs without a model, not ready, until there is one; otherwise it ends
    wait_for_model: bool = False

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
        if self.filters is not None:
            _check_folder(self.filters, "--filters")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, to be sent to a worker process."""
        return TypeAdapter(ServiceSettings).dump_python(self, mode="json")  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ServiceSettings:
        """Rebuild the settings from the values of `to_dict`."""
        return TypeAdapter(ServiceSettings).validate_python(values)


def _check_folder(path: Path, option: str) -> None:
    """Raise an error if a path is not a folder and cannot become one, because it or a part of it is a file."""
    existing = next((one for one in (path, *path.parents) if one.exists()), None)
    if existing is not None and not existing.is_dir():
        raise InputError(f"{option} must be a folder", given=f"the file {existing}", hint="Name another path.")
