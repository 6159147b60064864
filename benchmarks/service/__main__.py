"""The REST service under load, beside Annif's: ``python -m benchmarks.service``.

Requests per second, median and 99th percentile for short texts (titles) over the loopback address, by wrk, on the same
machine: tagwood with and without batching of requests, with a named filter, with labels added by name and with a second
model beside it, and Annif's service with an Omikuji project trained on the same rows. Before the load, answers are
compared with those of `Tagger.tag`. Then memory over some minutes of load.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote_plus

from benchmarks import CACHE, ROOT, SHARED
from benchmarks.peers import version
from benchmarks.report import Page, machine, machine_line, number, table
from benchmarks.service import annif
from tagwood import Tagger
from tagwood.data import Dataset, read_dataset, read_vocab

PAGE = Page("benchmarks", "service")
DATA = SHARED / "yso-titles"
K = 5
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
WORK = CACHE / "service"


class Prepared(NamedTuple):
    """tagwood's model, the rows that Annif trains on, and texts to predict."""

    model: Path
    names: list[str]
    rows: Sequence[str]
    labels: list[list[int]]
    texts: list[str]


@dataclass(frozen=True)
class Load:
    """The result of wrk."""

    title: str
    connections: int
    seconds: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    requests: int
    errors: int
    all_requests: int = 0  # with those of warming up
    requests_per_cpu_second: float = 0.0  # of the service's processes
    checked: int = 0  # answers that were compared before the load


def main() -> None:
    options = parse()
    wrk = find_wrk()
    data = prepare(options.rows)
    model = data.model
    bodies = [json.dumps({"texts": text, "k": K}) for text in data.texts]
    ours = script("tagwood", "application/json", bodies)
    rows = measure_loads(wrk, data, options)
    rows += [] if options.no_annif else ask_annif(wrk, data, options)
    memory: list[dict[str, float]] = []
    long_load = None
    if options.minutes:
        with Server(tagwood_command(model, options.workers, []), "/ready") as server:
            memory, long_load = watch_memory(wrk, server, ours, options)
    content = {
        "machine": machine(),
        "rows": [asdict(row) for row in rows],
        "memory": memory,
        "long_load": None if long_load is None else asdict(long_load),
        "settings": {key: value for key, value in vars(options).items() if key != "out"},
        "versions": {name: version(name) for name in ("tagwood", *(() if options.no_annif else ("annif",)))},
    }
    if any(row.errors for row in [*rows, *([long_load] if long_load else [])]):
        print("! There were errors: see the logs in .cache/bench/service before you publish this.", flush=True)
    PAGE.save(options.out, content)
    PAGE.write(options.out, page_blocks(content))


class Variant(NamedTuple):
    """A way to run tagwood's service: options of `serve`, its model, fields of each request, models that may answer."""

    title: str
    flags: list[str]
    model: Path
    body: dict[str, Any]
    models: tuple[Path, ...]


def variants(data: Prepared) -> list[Variant]:
    """Return the ways that are measured; a tenth of the labels are in the filter, 1,000 labels were added by name."""
    plain = data.model
    grown, other = WORK / f"{plain.name}-grown", WORK / f"{plain.name}-candidate"
    if not grown.exists():
        texts = {f"{' '.join(text.split()[:3])} {number}": text for number, text in enumerate(data.rows[:1000])}
        Tagger.load(plain).update_labels(texts=texts).save(grown)
    if not other.exists():
        some = Dataset(data.labels, Tagger.load(plain).vocab_, texts=list(data.rows)).rows(
            list(range(0, len(data.rows), 2))
        )
        Tagger(quality="fast").fit(some).save(other)
    beside = ["--candidate", str(other), "--candidate-share", "0.5"]
    return [
        Variant("tagwood", [], plain, {}, (plain,)),
        Variant("tagwood, no batching", ["--no-batching"], plain, {}, (plain,)),
        Variant("tagwood, filter of a tenth of the labels", [], plain, {"filters": ["tenth"]}, (plain,)),
        Variant("tagwood, 1,000 labels added by name", [], grown, {}, (grown,)),
        Variant("tagwood, a fast model compared with half of the answers", beside, plain, {}, (plain,)),
        Variant("tagwood, a fast model answers half (A/B)", [*beside, "--send-candidate"], plain, {}, (plain, other)),
    ]


def measure_loads(wrk: str, data: Prepared, options: argparse.Namespace) -> list[Load]:
    """Check and measure each way to run tagwood's service."""
    rows: list[Load] = []
    for one in variants(data):
        lua = script("variant", "application/json", [json.dumps({"texts": t, "k": K, **one.body}) for t in data.texts])
        with Server(tagwood_command(one.model, options.workers, one.flags), "/ready") as server:
            allowed = list(range(0, len(data.names), 10))
            send(server.url("/v1/filters/tenth"), {"labels": allowed}, "PUT")
            checked = check_answers(server, one, data.texts[:200], allowed)
            for connections in (1, options.connections):
                before = server.cpu_seconds()
                found = run_wrk(wrk, server.url("/v1/suggest"), lua, one.title, connections, options.seconds)
                per_second = found.all_requests / (server.cpu_seconds() - before)
                rows.append(replace(found, requests_per_cpu_second=per_second, checked=checked))
    return rows


def check_answers(server: Server, one: Variant, texts: list[str], allowed: list[int]) -> int:
    """Compare answers with those of the models here, one of which must give the same; return their number."""
    only = {"restrict": allowed} if one.body else {}
    expected = [Tagger.load(model).tag(texts, K, **only) for model in one.models]
    for place, text in enumerate(texts):
        labels = send(server.url("/v1/suggest"), {"texts": text, "k": K, **one.body})["results"][0]["labels"]
        found = [(label["name"], round(label["score"], 4)) for label in labels]
        known = [[(tag.name, round(tag.score, 4)) for tag in answers[place]] for answers in expected]
        if found not in known:
            raise SystemExit(f"{one.title}: wrong answer to {text!r}: {found}; expected {known}")
    return len(texts)


def send(url: str, content: dict[str, Any], method: str = "POST") -> Any:
    """Send JSON, return the JSON of the answer."""
    body, header = json.dumps(content).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, header, method=method), timeout=60) as answer:
        return json.loads(answer.read())


def parse() -> argparse.Namespace:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--rows", type=int, help="train on the first rows only; default all")
    parser.add_argument("--seconds", type=int, default=30, help="of each measurement")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10, help="of load for the memory measurement; 0 skips it")
    parser.add_argument("--no-annif", action="store_true")
    return parser.parse_args()


def find_wrk() -> str:
    """Return the load generator wrk, installed from Debian's packages if it is missing."""
    if shutil.which("wrk") is None:
        subprocess.run(["apt-get", "install", "-y", "wrk"], check=False, capture_output=True)
    found = shutil.which("wrk")
    if found is None:
        raise SystemExit("wrk is needed, and apt-get could not install it; install the Debian package 'wrk' by hand.")
    return found


def prepare(n_rows: int | None) -> Prepared:
    """Read the data and train tagwood's model, or use an earlier one."""
    if not DATA.is_dir():
        raise SystemExit(f"the data of yso-titles must be in {DATA.relative_to(ROOT.parent)}, beside the repository")
    vocab = read_vocab(DATA / "labels.tsv.gz")
    train = read_dataset(DATA / "train.jsonl.gz", vocab=vocab)
    if n_rows is not None:
        train = train.rows(list(range(n_rows)))
    model = WORK / f"tagwood-{train.n_rows}"
    if not model.exists():
        print(f"tagwood: training on {train.n_rows:,} rows ...", flush=True)
        Tagger().fit(train.texts or [], train.labels, vocab=train.vocab).save(model)
    names = [f"{vocab.name(label)} {label}" for label in range(len(vocab))]  # Annif needs distinct names
    test = read_dataset(DATA / "test.jsonl.gz", vocab=vocab, on_unknown="skip")
    texts = [text for text in (test.texts or [])[:5000] if text.strip()]
    return Prepared(model, names, train.texts or [], train.label_lists(), texts)


def ask_annif(wrk: str, data: Prepared, options: argparse.Namespace) -> list[Load]:
    """Measure Annif's service."""
    folder = annif.prepare(WORK / f"annif-{len(data.rows)}", data.names, data.rows, data.labels)
    forms = [f"text={quote_plus(text)}&limit={K}" for text in data.texts]
    theirs = script("annif", "application/x-www-form-urlencoded", forms)
    path = f"/v1/projects/{annif.PROJECT}"
    found = []
    start = lambda port: annif.serve(folder, port, options.workers)  # noqa: E731
    with Server(start, path) as server:
        for connections in (1, options.connections):
            address = server.url(f"{path}/suggest")
            found.append(run_wrk(wrk, address, theirs, "Annif, Omikuji", connections, options.seconds))
    return found


class Server:
    """A service in its own processes, started on a free port and stopped at the end."""

    def __init__(self, start: Any, ready: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._start, self._ready = start, ready

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Server:
        self.process = self._start(self.port)
        end = time.monotonic() + 300
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url(self._ready), timeout=60) as answer:
                    if answer.status == 200:
                        time.sleep(2)  # the other workers
                        return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self.__exit__()
        raise SystemExit("a service did not start; see the logs in .cache/bench/service")

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def pids(self) -> list[int]:
        """Return the numbers of all processes."""
        pid = self.process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def cpu_seconds(self) -> float:
        """Return the CPU time that all processes have taken."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids()]
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return the proportional set size of all processes: shared pages count once."""
        kb = 0
        for pid in self.pids():
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kb += int(line.split()[1])
        return kb * 1024 / 1e6


def tagwood_command(model: Path, workers: int, flags: list[str]) -> Any:
    """Return a function that starts tagwood's service, logs as by default."""
    code = "from tagwood.cli import main; main()"

    def start(port: int) -> subprocess.Popen[bytes]:
        options = ["--port", str(port), "--workers", str(workers), "--no-feedback", *flags]
        with (WORK / "tagwood.log").open("w") as log:
            return subprocess.Popen([sys.executable, "-c", code, "serve", str(model), *options], stdout=log, stderr=log)

    return start


def script(name: str, kind: str, bodies: list[str]) -> Path:
    """Write the script of wrk, which sends the bodies in turn."""
    place = WORK / f"{name}.lua"
    listed = ",\n".join(json.dumps(body) for body in bodies)  # ASCII: a Lua string too
    place.write_text(
        f'wrk.method = "POST"\nwrk.headers["Content-Type"] = "{kind}"\nlocal bodies = {{\n{listed}\n}}\n'
        "local place = 0\nfunction request()\n  place = place % #bodies + 1\n"
        "  return wrk.format(nil, nil, nil, bodies[place])\nend\n"
    )
    return place


def run_wrk(wrk: str, url: str, lua: Path, title: str, connections: int, seconds: int) -> Load:
    """Put load on an address, after two seconds of warming up."""
    command = [wrk, "-t1", f"-c{connections}", "--latency", "--timeout", "30s", "-s", str(lua), url]
    tried = subprocess.run([*command, "-d2s"], check=True, capture_output=True, text=True)
    if tried.stderr.strip():
        raise SystemExit(f"wrk did not read its script: {tried.stderr.strip()[:300]}")
    said = subprocess.run([*command, f"-d{seconds}s"], check=True, capture_output=True, text=True).stdout
    load = read_wrk(said, title, connections, seconds)
    load = replace(load, all_requests=load.requests + read_wrk(tried.stdout, title, connections, 2).requests)
    shown = f"{load.requests_per_second:,.0f}/s, p50 {load.p50_ms:.2f} ms, p99 {load.p99_ms:.2f} ms"
    print(f"{title}, {connections} connections: {shown}, {load.errors} errors", flush=True)
    return load


def watch_memory(
    wrk: str, server: Server, lua: Path, options: argparse.Namespace
) -> tuple[list[dict[str, float]], Load]:
    """Return up to 61 memory measurements under load, and the load."""
    seconds = max(10, round(60 * options.minutes))
    command = [
        wrk,
        "-t1",
        f"-c{options.connections}",
        f"-d{seconds}s",
        "--latency",
        "-s",
        str(lua),
        server.url("/v1/suggest"),
    ]
    looks: list[dict[str, float]] = []
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
        for _ in range(61):
            looks.append({"seconds": round(time.monotonic() - start, 1), "mb": server.memory_mb()})
            try:
                load.wait(seconds / 60)
                break
            except subprocess.TimeoutExpired:
                continue
        said, _ = load.communicate()
    print(f"memory: {looks[0]['mb']:.0f} MB at first, {looks[-1]['mb']:.0f} MB at last", flush=True)
    return looks, read_wrk(said, "tagwood", options.connections, seconds)


def read_wrk(said: str, title: str, connections: int, seconds: int) -> Load:
    r"""Read wrk's report.

    Examples
    --------
    >>> report = "50%  1.50ms\n 99%  20.00us\n 300 requests in 3.00s\nRequests/sec: 100.00"
    >>> load = read_wrk(report, "x", 1, 3)
    >>> load.requests_per_second, load.p50_ms, load.p99_ms, load.requests, load.errors
    (100.0, 1.5, 0.02, 300, 0)
    """

    def percentile(share: int) -> float:
        found = re.search(rf"{share}%\s+([\d.]+)(us|ms|s|m)\b", said)
        return float(found[1]) * _UNITS[found[2]] if found else float("nan")

    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    errors = (int(bad[1]) if bad else 0) + (sum(map(int, broken.groups())) if broken else 0)
    rate, count = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
    assert rate is not None
    assert count is not None
    return Load(title, connections, seconds, float(rate[1]), percentile(50), percentile(99), int(count[1]), errors)


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield the table and the memory under load."""
    rows = content["rows"]
    base = {row["connections"]: row["requests_per_second"] for row in rows if row["title"].startswith("Annif")}
    header = ["service", "connections", "requests/s", "against Annif", "per CPU s", "p50 ms", "p99 ms", "errors"]
    yield table(
        header,
        [
            [
                row["title"],
                str(row["connections"]),
                number(row["requests_per_second"]),
                f"{row['requests_per_second'] / base[row['connections']]:.1f}x" if base else "",
                number(row["requests_per_cpu_second"]) if row["requests_per_cpu_second"] else "",
                number(row["p50_ms"]),
                number(row["p99_ms"]),
                f"{row['errors']:,}",
            ]
            for row in rows
        ],
    )
    checked = sum({row["title"]: row["checked"] for row in rows}.values())
    yield f"{checked:,} answers of tagwood's services, before the load, were those of `Tagger.tag`."
    if content["memory"]:
        looks, load = content["memory"], content["long_load"]
        late = [look["mb"] for look in looks[len(looks) // 6 :]]  # caches fill during the first sixth
        yield (
            f"Memory of all processes (shared pages counted once) over {looks[-1]['seconds'] / 60:.1f} minutes: "
            f"{late[0]:.0f} MB after the first sixth, {late[-1]:.0f} MB at the end, {max(late):.0f} MB at most; "
            f"{load['requests']:,} requests, {load['errors']:,} errors."
        )
    versions = ", ".join(f"{name} {found}" for name, found in content["versions"].items())
    yield f"Versions: {versions}. {machine_line(content['machine'])}"


if __name__ == "__main__":
    main()
