# ruff: noqa: T201
"""Structured fuzzing of everything that is read: manifests, headers of arrays, data in every format, side files.

A case is a valid file and a few mutations that know its structure: values in JSON, members of a zip file, the header of
a safetensors file, lines, words and bytes. hypothesis draws and shrinks them. Allowed are a value or a `TagwoodError`;
another exception, a warning, much CPU time or much memory is a failure, and is written to ``build/fuzz``. Files that
once failed are kept in ``tests/faults/corpus`` and are read again first.

``python -m tests.faults.fuzz --cases 20000`` or ``--seconds 60`` runs it; ``--only csv`` one kind of file.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

import tagwood
from tagwood.cli.import_annif import convert, read_projects
from tagwood.data import FORMATS, BadLines, LabelVocab, read_dataset, read_vocab
from tagwood.data.feedback import read_feedback
from tagwood.data.filter_pairs import read_filter_pairs
from tagwood.data.predictions import read_ranking
from tagwood.errors import TagwoodError
from tagwood.groups.labels import read_corrections, read_group_labels
from tagwood.recipe import read_recipe
from tagwood.storage.tensors import map_tensor, read_header
from tagwood.tuning.study import DEFAULT_RANGES, read_ranges

sys.path[:0] = [str(Path(__file__).parents[1] / "support")]
from fuzzing.inputs import PIECES  # noqa: E402  needs the line above when this is not run by pytest
from fuzzing.stage import RECIPE, TOPICS, make_stage  # noqa: E402

from tests.faults import forging  # noqa: E402

CORPUS = Path(__file__).with_name("corpus")
FINDINGS = Path("build/fuzz")
CPU_SECONDS = 5  # of one case, which takes milliseconds
MEMORY = 1 << 30  # bytes of address space above those at the start
PORTION = 500  # cases between two looks at the clock
WORDS = re.compile(rb"[\w.+-]+")
ODD: list[Any] = [
    *(None, True, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, "", "x", "\ud800", "\x00", "1", "9" * 400),
    *([], {}, [[]], [None], [[1, 2]], {"": 0}, {"id": -1}, {"name": []}, [1] * 9),
]
VOCAB = LabelVocab.from_names(list(TOPICS))
SKOS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix s: <http://example.org/> .
s:1 a skos:Concept ; skos:prefLabel "trees"@en, "Baeume"@de ; skos:altLabel "wood"@en ; skos:narrower s:2 .
s:2 a skos:Concept ; skos:prefLabel "water"@en ; skos:broader s:1 ; skos:notation "W" ; skos:definition "wet"@en .
"""
TABLE = "id,name,uri,name_de,alt,broader\n0,trees,http://x/0,Baeume,wood|oak,\n1,water,http://x/1,Wasser,,trees\n"
FEEDBACK = '{"id": "1", "text": "oak", "accepted": ["trees"], "rejected": ["water"], "added": ["stars"]}\n'
GROUP_LABELS = "box 1\ttrees\twater\nbox 2\tstars\n"
CORRECTIONS = '{"from_group": "box 1", "sample": 0, "text": "oak", "labels": ["trees"], "removed": [1]}\n'
PROJECTS = "[fi]\nname=x\nlanguage=fi\nbackend=omikuji\nanalyzer=snowball(finnish)\nvocab=yso\nlimit=100\n"


class Kind(NamedTuple):
    """A kind of file: valid files by their paths below a folder, and what reads the folder with a mutated one."""

    files: dict[str, bytes]
    read: Callable[[Path], Any]


class Mutation(NamedTuple):
    """One change: what is done, where, and with what; numbers are taken modulo what there is."""

    how: str
    place: int
    choice: int


HOWS = ("json", "json", "word", "word", "line", "bytes", "bytes")
mutations = st.lists(
    st.builds(Mutation, st.sampled_from(HOWS), st.integers(0, 1 << 16), st.integers(0, 1 << 16)),
    min_size=1,
    max_size=4,
)


def make_kinds(folder: Path) -> dict[str, Kind]:
    """Return every kind of file; `folder` is used to write valid ones."""
    stage = make_stage(folder)
    kinds = {name: Kind(stage.files[name], _dataset_reader(stage.data[name].name, name)) for name in sorted(FORMATS)}
    kinds["csv.gz"] = Kind({"set.csv.gz": gzip.compress(stage.files["csv"]["set.csv"], mtime=0)}, _detected)
    kinds["detection"] = Kind({"set": stage.files["csv"]["set.csv"]}, _detected)
    model = {path.name: path.read_bytes() for path in stage.model.iterdir()}
    kinds["manifest"] = Kind(model, _load_model)
    kinds["safetensors"] = Kind({"arrays.safetensors": model["arrays.safetensors"]}, _read_tensors)
    texts: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
        "vocab.tsv": ("vocab.tsv", TABLE.replace(",", "\t"), read_vocab),
        "vocab.csv": ("vocab.csv", TABLE, read_vocab),
        "skos.ttl": ("vocab.ttl", SKOS, read_vocab),
        "predictions": ("answers.jsonl", stage.predictions.read_text(), lambda path: read_ranking(path, VOCAB)),
        "feedback": ("feedback.jsonl", FEEDBACK * 3, lambda path: read_feedback(path, VOCAB)),
        "filter pairs": ("filter.txt", "0 1\n1 2\n2 0\n", lambda path: read_filter_pairs(path, 3, 4, BadLines())),
        "group labels": ("groups.tsv", GROUP_LABELS, read_group_labels),
        "corrections": ("corrections.jsonl", CORRECTIONS * 2, read_corrections),
        "recipe": ("recipe.toml", RECIPE, read_recipe),
        "ranges": ("ranges.toml", DEFAULT_RANGES, read_ranges),
        "annif projects": ("projects.cfg", PROJECTS, _projects),
    }
    for name, (file, content, read) in texts.items():
        kinds[name] = Kind({file: content.encode()}, lambda folder, file=file, read=read: read(folder / file))
    return kinds


def _dataset_reader(name: str, form: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        return read_dataset(folder / name, form, skip_bad=BadLines(skip=True))

    return read


def _detected(folder: Path) -> Any:
    return read_dataset(next(folder.iterdir()))


def _projects(path: Path) -> Any:
    return [convert(name, options) for name, options in read_projects(path).items()]


def _load_model(folder: Path) -> Any:
    """Load a folder whose manifest, if it is JSON, is sealed again, so that what is behind the checksum is reached."""
    try:
        value = json.loads((folder / "manifest.json").read_bytes())
        forging.reseal(folder, value)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # it is read as it is
    return tagwood.load(folder)


def _read_tensors(folder: Path) -> Any:
    raw = (folder / "arrays.safetensors").read_bytes()
    try:
        return [map_tensor(raw, tensor).sum() for tensor in read_header(raw).values()]
    except ValueError:  # what `read_header` promises; `load` adds the name of the file
        return None


def mutated(name: str, content: bytes, changes: Sequence[Mutation]) -> bytes:
    """Return the content with all changes; inside compressed files and headers, which are packed again."""
    if name.endswith(".gz") and changes[0].choice % 4:
        return gzip.compress(mutated(name[:-3], gzip.decompress(content), changes), mtime=0)
    if name.endswith((".npz", ".xlsx")) and changes[0].choice % 4:
        return _mutated_member(content, changes)
    if name.endswith(".safetensors") and changes[0].choice % 4:
        size = int.from_bytes(content[:8], "little")
        header = mutated("header.json", content[8 : 8 + size].rstrip(), changes)
        header += b" " * (-(8 + len(header)) % 64)
        return len(header).to_bytes(8, "little") + header + content[8 + size :]
    for change in changes:
        content = _CHANGES[change.how](content, change.place, change.choice)
    return content


def _mutated_member(content: bytes, changes: Sequence[Mutation]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        names = old.namelist()
        for name in names:
            inner = old.read(name)
            new.writestr(name, mutated(name, inner, changes) if name == names[changes[0].place % len(names)] else inner)
    return packed.getvalue()


def _change_json(content: bytes, place: int, choice: int) -> bytes:
    """Change a value of JSON, or of one line of JSON lines; other content changes by a word."""
    lines = [content] if content.lstrip().startswith(b"{\n") else content.split(b"\n")
    at = place % len(lines)
    try:
        value = json.loads(lines[at])
    except ValueError:
        return _change_word(content, place, choice)
    spots: list[tuple[Any, Any]] = []

    def collect(holder: Any) -> None:
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            spots.append((holder, key))
            if isinstance(holder[key], dict | list):
                collect(holder[key])

    if isinstance(value, dict | list):
        collect(value)
    if not spots:
        return content
    holder, key = spots[(place // len(lines)) % len(spots)]
    number = choice % (len(ODD) + 3)
    if number < len(ODD):
        holder[key] = ODD[number]
    elif number == len(ODD):
        del holder[key]
    elif isinstance(holder, dict):
        holder[str(key) + "x" * (number - len(ODD))] = holder[key]
    else:
        holder.append(holder[key])
    lines[at] = json.dumps(value).encode()
    return b"\n".join(lines)


def _change_word(content: bytes, place: int, choice: int) -> bytes:
    found = list(WORDS.finditer(content))
    if not found:
        return _change_bytes(content, place, choice)
    one, other = found[place % len(found)], found[choice % len(found)]
    pieces = [*PIECES, other.group(), one.group() * 3, b"", b"2000000000", b"-" + one.group(), one.group() + b"0" * 9]
    return content[: one.start()] + pieces[choice % len(pieces)] + content[one.end() :]


def _change_line(content: bytes, place: int, choice: int) -> bytes:
    lines = content.split(b"\n")
    at, other = place % len(lines), choice % len(lines)
    match choice % 6:
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] += lines[other]
        case 4:
            lines[at] = lines[at] * 50
        case _:
            del lines[at:]
    return b"\n".join(lines)


def _change_bytes(content: bytes, place: int, choice: int) -> bytes:
    at, piece = place % (len(content) + 1), PIECES[choice % len(PIECES)]
    match choice % 5:
        case 0:
            return content[:at] + piece + content[at:]
        case 1:
            return content[:at] + piece + content[at + len(piece) :]
        case 2:
            return content[:at] + bytes([choice % 256]) + content[at + 1 :]
        case 3:
            return content[:at] + content[at + choice % 20 :]
    return content[:at]


_CHANGES = {"json": _change_json, "word": _change_word, "line": _change_line, "bytes": _change_bytes}


class TooMuchTimeError(BaseException):
    """A case took too much CPU time; nothing catches this."""


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooMuchTimeError


class Fuzzer:
    """The kinds of files, a folder to write cases to, and what was found."""

    def __init__(self, folder: Path, only: str = "") -> None:
        self.kinds = {name: kind for name, kind in make_kinds(folder / "stage").items() if name.startswith(only)}
        self.place = folder / "case"
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        signal.signal(signal.SIGPROF, _ring)

    def read(self, name: str, victim: str, content: bytes) -> str | None:
        """Read a case; return what is wrong."""
        shutil.rmtree(self.place, ignore_errors=True)
        for file, valid in self.kinds[name].files.items():
            (self.place / file).parent.mkdir(parents=True, exist_ok=True)
            (self.place / file).write_bytes(content if file == victim else valid)
        self.counts[name] += 1
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.kinds[name].read(self.place)
        except TagwoodError:
            self.refused[name] += 1
        except TooMuchTimeError:
            return f"more than {CPU_SECONDS} s of CPU time"
        except Exception:
            return traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return None

    def replay(self) -> int:
        """Read the corpus: a folder for each kind, with files of which the ending of the name is that of the victim."""
        for path in sorted(CORPUS.glob("*/*")):
            name = path.parent.name.replace("_", " ")
            if name in self.kinds:
                self._note(name, path.name, self.read(name, _victim(self.kinds[name], path.name), path.read_bytes()))
        return self.counts.total()

    def run(self, name: str, cases: int, start: int) -> None:
        """Draw cases of one kind; the first failure is shrunk and kept."""
        kind = self.kinds[name]
        worst: dict[str, tuple[str, bytes, str]] = {}

        @seed(start)
        @settings(
            max_examples=cases,
            deadline=None,
            database=None,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(sorted(kind.files)), mutations)
        def check(victim: str, changes: list[Mutation]) -> None:
            content = mutated(victim, kind.files[victim], changes)
            wrong = self.read(name, victim, content)
            if wrong is not None:
                worst["case"] = victim, content, wrong
                raise AssertionError(wrong.splitlines()[-1][:80])

        try:
            check()
        except BaseException as error:
            if "case" not in worst or isinstance(error, KeyboardInterrupt):
                raise
            victim, content, wrong = worst["case"]
            target = (
                FINDINGS / name.replace(" ", "_") / f"{hashlib.sha256(content).hexdigest()[:8]}-{Path(victim).name}"
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            self._note(name, str(target), wrong)

    def _note(self, name: str, where: str, wrong: str | None) -> None:
        if wrong is not None:
            self.findings[where] = wrong
            print(f"FAILED {name}: {where}\n{wrong[-1500:]}", flush=True)


def _victim(kind: Kind, name: str) -> str:
    """Return the file of a kind that a file of the corpus stands for: the one with the same ending."""
    return next((file for file in kind.files if name.endswith(Path(file).name)), next(iter(kind.files)))


def run_all(folder: Path, *, cases: int, seconds: float | None, only: str = "", start: int = 0) -> Fuzzer:
    """Replay the corpus, then draw cases of all kinds in turn until there are enough, or the time is up."""
    fuzzer = Fuzzer(folder, only)
    print(f"corpus: {fuzzer.replay():,} files read again", flush=True)
    until = None if seconds is None else time.monotonic() + seconds
    share = PORTION if seconds is not None else max(1, -(-cases // len(fuzzer.kinds)))
    while True:
        for name in fuzzer.kinds:
            if until is not None and time.monotonic() > until:
                return fuzzer
            fuzzer.run(name, min(share, PORTION), start)
        start += 1
        share -= 0 if seconds is not None else min(share, PORTION)
        if share == 0:
            return fuzzer


def limit_memory() -> None:
    """Make too much memory a MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def main() -> None:
    """Run what the command line names; end with code 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, help="run for this time instead of a number of cases")
    parser.add_argument("--only", default="", help="beginning of the name of a kind of file")
    parser.add_argument("--start", type=int, default=0, help="seed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tagwood-fuzz-") as folder:
        (Path(folder) / "stage").mkdir()
        limit_memory()
        fuzzer = run_all(Path(folder), cases=args.cases, seconds=args.seconds, only=args.only, start=args.start)
    for name, count in sorted(fuzzer.counts.items()):
        print(f"  {name:<18}{count:>7,}, {fuzzer.refused[name]:,} refused")
    print(f"mutated files: {fuzzer.counts.total():,} trials, {len(fuzzer.findings)} failures")
    sys.exit(1 if fuzzer.findings else 0)


if __name__ == "__main__":
    main()
