"""`Settings` and `Limits`: what the operator decides. In: options of `tagwood serve`. Out: frozen values."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tagwood._check import check_float, check_int
from tagwood.errors import InputError

NO_MODEL = 3  # exit code of a worker that could not load the model
GRACEFUL = 20  # seconds for requests in work when the service ends
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")


@dataclass(frozen=True)
class Limits:
    """What one request may hold; more is answered with a 4xx.

    Parameters
    ----------
    body_bytes
        Size of a body (413).
    text_chars
        Characters of one text (422).
    texts
        Texts of one request (422).
    k
        Labels per text (422).
    labels
        Labels in `restrict`, `exclude` or feedback (422).
    concurrent
        Requests in work at once in one worker process (429).
    body_seconds
        Time to send a body (408).
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
class Settings:
    """How a service runs.

    Parameters
    ----------
    limits
        Of requests.
    token
        Bearer token that every request to /v1 and /metrics must show; None: open to all who can connect.
    origins
        Web pages of other servers that may use the service (CORS), such as ``https://library.example``.
    hosts
        Host names under which the service may be asked; none: any. A loopback service needs them, or a web page that
        lets its own name point to this machine could read the answers.
    feedback
        File that feedback is appended to; None: feedback is refused.
    corrections
        File that corrections of groups are appended to; None: they are refused.
    gather
        Whether requests that come at the same time are answered together.
    threads
        Threads of one worker for large batches.
    reload_seconds
        How often to look for a new model in the folder; 0: never.
    log_texts
        Whether texts may stand in the log.
    run_folder
        Folder that the workers of one service share while it runs; None: only one worker.
    """

    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    feedback: Path | None = None
    corrections: Path | None = None
    gather: bool = True
    threads: int = 1
    reload_seconds: float = 2.0
    log_texts: bool = False
    run_folder: Path | None = None

    def __post_init__(self) -> None:
        check_int(self.threads, "threads", low=1)
        check_float(self.reload_seconds, "reload_seconds", low=0.0)
        if self.token is not None and not (
            self.token.isascii() and self.token.isprintable() and len(self.token) >= 8
        ):
            raise InputError(
                "the token must have at least 8 printable ASCII characters",
                given=f"{len(self.token)} characters",
                hint="Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
            )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise InputError(
                    "an origin must be a scheme and a host",
                    given=repr(origin),
                    hint="For example https://library.example",
                )

    @property
    def index_folder(self) -> Path | None:
        """Where workers share their label index."""
        return None if self.run_folder is None else self.run_folder / "labels"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, for a worker process."""
        values = asdict(self)
        for name in ("feedback", "corrections", "run_folder"):
            values[name] = None if values[name] is None else str(values[name])
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Rebuild from `to_dict`."""
        for name in ("feedback", "corrections", "run_folder"):
            values[name] = None if values[name] is None else Path(values[name])
        return cls(
            **{
                **values,
                "limits": Limits(**values["limits"]),
                "origins": tuple(values["origins"]),
                "hosts": tuple(values["hosts"]),
            }
        )
