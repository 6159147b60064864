"""`tagwood serve`: models as a REST service with a web page. In: model folders. Out: answers, until stopped."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli.common import JsonFlag, print_json, say, service_is_installed
from tagwood.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tagwood.service.settings import RequestLimits, ServedModel, ServiceSettings

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def serve(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL...", help="Model folders or links to them, or a folder that holds several."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is reachable from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Number of processes; they share one model in memory.")
    ] = 1,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Threads per worker for large batches.")] = 1,
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first line is the token that every request must carry.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Host name that requests may name; others are refused (repeatable).")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Web site that may use the service, https://... (repeatable).")
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(help="File for feedback; MODEL.feedback.jsonl next to the model by default."),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            "--language", "-L", help="Language of the texts of a model, MODEL=CODE; detected by default (repeatable)."
        ),
    ] = None,
    no_feedback: Annotated[bool, typer.Option("--no-feedback", help="Do not store feedback and corrections.")] = False,
    queue: Annotated[
        Path | None, typer.Option(help="File with texts to review on the page, least certain ones first.")
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Let requests teach the model in use: POST /v1/learn, and the page.")
    ] = False,
    limits: Annotated[
        list[str] | None,
        typer.Option("--max", help="Limit of a request, such as texts=100 or text_chars=50000 (repeatable)."),
    ] = None,
    filters: Annotated[
        Path | None, typer.Option(help="Folder that keeps named filters; without it they end with the service.")
    ] = None,
    no_batching: Annotated[
        bool, typer.Option("--no-batching", help="Answer each request on its own instead of in batches.")
    ] = False,
    reload_seconds: Annotated[
        float,
        typer.Option(help="Seconds between checks for a new model in the folder; 0 to reload on SIGHUP only."),
    ] = 2.0,
    candidate: Annotated[
        Path | None, typer.Option(help="Second model, which answers a share of the requests for comparison.")
    ] = None,
    candidate_share: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the requests that the candidate answers, too; 0.1 by default."),
    ] = None,
    send_candidate: Annotated[
        bool, typer.Option("--send-candidate", help="Send the candidate's answers (A/B test), not only compare them.")
    ] = False,
    wait_for_model: Annotated[
        bool, typer.Option("--wait-for-model", help="Start without a model, not ready, until the folder has one.")
    ] = False,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Include texts in the log.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not log each request.")] = False,
    json: JsonFlag = False,
) -> None:
    """Serve models: a web page at /, a REST API at /v1, its description at /openapi.json.

    Each model is a project, whose id is the name of its folder; requests of Annif's REST API are answered, too. The log
    on stderr has one JSON object per line. A new model saved to a folder is loaded without interruption.
    """
    if not service_is_installed():
        raise MissingExtraError("the service", extra="serve")
    from tagwood.service.settings import Candidate, ServedModel, ServiceSettings

    folders = {one.absolute().name: one for one in models} if wait_for_model else project_folders(models)
    second = None
    if candidate is not None:
        if len(folders) > 1:
            raise InputError("--candidate is compared with one model", given=f"{len(folders)} models")
        share = Candidate.share if candidate_share is None else candidate_share
        second = Candidate(next(iter(project_folders([candidate]).values())), share, not send_candidate)
    elif send_candidate or candidate_share is not None:
        option = "--send-candidate" if send_candidate else "--candidate-share"
        raise InputError(f"{option} needs a second model", given="none", hint="Name it: --candidate MODEL.")
    if feedback is not None and len(folders) > 1:
        raise InputError(
            "--feedback names the file of one model",
            given=f"{len(folders)} models",
            hint="Leave it out: feedback is stored beside each model.",
        )
    if queue is not None:
        check_queue(queue, len(folders), no_feedback=no_feedback)
    if learn and no_feedback:
        raise InputError("--learn keeps what it learns in the feedback file", given="--no-feedback")
    languages = parse_languages(language or [], folders)
    settings = ServiceSettings(
        limits=parse_limits(limits or []),
        token=None if token_file is None else read_token(token_file),
        origins=tuple(origin or ()),
        hosts=accepted_hosts(host, allow_host or []),
        queue=queue,
        learn=learn,
        batch_requests=not no_batching,
        threads=jobs,
        reload_seconds=reload_seconds,
        log_texts=log_texts,
        filters=filters,
        wait_for_model=wait_for_model,
    )
    if settings.token is None and not is_loopback(host):
        say(f"! Anyone who reaches {host} can use this service and store feedback; see --token-file.")
    served = {
        project: ServedModel(
            folder,
            None if no_feedback else feedback or beside(folder, "feedback"),
            None if no_feedback else beside(feedback or folder, "corrections"),
            languages.get(project),
            second,
        )
        for project, folder in folders.items()
    }
    run(served, settings, host, port, workers=workers, quiet=quiet, json=json)


def run(
    models: Mapping[str, ServedModel],
    settings: ServiceSettings,
    host: str,
    port: int,
    *,
    workers: int,
    quiet: bool,
    json: bool,
) -> None:
    """Run the service until it is stopped."""
    from tagwood.service.processes import Supervisor, open_socket

    with open_socket(host, port) as sock:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{sock.getsockname()[1]}/"
        one = len(models) == 1
        shown_models = ", ".join(str(served.folder) for served in models.values()) + (" is" if one else " are")

        def on_ready() -> None:
            if json:
                print_json({"address": address, "workers": workers, "projects": list(models)})
            say(f"{shown_models} served at {address} (Ctrl+C stops it)")

        service = Supervisor(models, settings, sock, workers=workers, log_requests=not quiet, on_ready=on_ready)
        if not service.run():
            which = str(next(iter(models.values())).folder) if one else "each model"
            raise InputError(f"{which} must be a model that can be loaded", hint="See the log above for the reason.")
        say("stopped")


def project_folders(given: Iterable[Path]) -> dict[str, Path]:
    """Return model folders by the ids of their projects: the folders' names.

    A folder without a model of its own stands for the models in it. Only manifests are read.
    """
    from tagwood.storage import read_manifest
    from tagwood.storage.folder import MANIFEST

    found: dict[str, Path] = {}
    for path in given:
        inside = [] if (path / MANIFEST).exists() or not path.is_dir() else sorted(path.glob(f"*/{MANIFEST}"))
        for folder in [one.parent for one in inside] or [path]:
            kind = read_manifest(folder).model.kind
            if kind != "Tagger":
                hint = "Train one with: tagwood train"
                raise InputError(f"{folder} must hold a Tagger", given=f"a {kind}", hint=hint)
            name = folder.absolute().name
            if name in found:
                raise InputError(
                    "the folders of models must have different names, which are the ids of their projects",
                    given=f"{found[name]} and {folder}",
                )
            found[name] = folder
    return found


def parse_languages(given: Iterable[str], projects: Iterable[str]) -> dict[str, str]:
    """Return languages by project, from words such as ``books=de``."""
    found = {}
    for item in given:
        project, _, code = item.partition("=")
        if project not in projects or not code.isalpha() or len(code) not in (2, 3):
            raise InputError(
                "--language takes MODEL=CODE, with a language of two or three letters",
                given=repr(item),
                hint=f"Models: {', '.join(projects)}.",
            )
        found[project] = code.lower()
    return found


def parse_limits(given: list[str]) -> RequestLimits:
    """Return limits from words such as ``texts=100``."""
    from tagwood.service.settings import RequestLimits

    known: dict[str, Any] = {name: type(value) for name, value in dataclasses.asdict(RequestLimits()).items()}
    values: dict[str, Any] = {}
    for item in given:
        name, _, value = item.partition("=")
        try:
            values[name] = known[name](value)
        except (KeyError, ValueError):
            hint = f"Known limits: {', '.join(known)}."
            raise InputError("--max takes NAME=NUMBER", given=repr(item), hint=hint) from None
    return RequestLimits(**values)


def check_queue(queue: Path, n_models: int, *, no_feedback: bool) -> None:
    """Raise an error if the texts to review cannot be read, or what is decided about them cannot be stored."""
    from tagwood.data import read_records

    if n_models > 1 or no_feedback:
        given = "--no-feedback" if no_feedback else f"{n_models} models"
        raise InputError("--queue is for one model that stores feedback", given=given)
    if next(iter(read_records(queue)), None) is None:
        raise InputError(f"{queue} must have texts to review", given="none")


def read_token(path: Path) -> str:
    """Return the first line of a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be text", given=str(error.reason)) from error
    if not lines or not lines[0].strip():
        raise InputError(f"the first line of {path} must be a token", given="nothing")
    return lines[0].strip()


def beside(path: Path, what: str) -> Path:
    """Return the place of a file beside the model, or beside the file for feedback.

    Examples
    --------
    >>> beside(Path("models/books"), "feedback").as_posix()
    'models/books.feedback.jsonl'
    >>> beside(Path("box/said.feedback.jsonl"), "corrections").as_posix()
    'box/said.corrections.jsonl'
    """
    name = path.absolute().name.removesuffix(".jsonl").removesuffix(".feedback")
    return path.parent / f"{name}.{what}.jsonl"


def accepted_hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the values of the Host header that are accepted; none: all are, on a public address without a list.

    Examples
    --------
    >>> accepted_hosts("127.0.0.1", []), accepted_hosts("0.0.0.0", [])
    (('localhost', '127.0.0.1', '[::1]'), ())
    >>> accepted_hosts("192.0.2.1", ["tags.example"])
    ('localhost', '127.0.0.1', '[::1]', '192.0.2.1', 'tags.example')
    """
    if is_loopback(host):
        return (*_LOOPBACK, *allowed)
    if not allowed:
        return ()
    own = () if host in ("0.0.0.0", "::", "") else (f"[{host}]" if ":" in host else host,)
    return (*_LOOPBACK, *own, *allowed)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
