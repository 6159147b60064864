"""`TfidfEncoder` beside scikit-learn's `TfidfVectorizer`: ``python -m benchmarks.tfidf``.

Needs the real datasets in ../shared/data. Rows per CPU second, latency of one text, and equality of the result: every
row is compared with scikit-learn that gets tagwood's folding and words as preprocessor and token pattern.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks import SHARED
from benchmarks.measure import least_cpu_seconds
from benchmarks.report import Page, number, table
from tagwood.features import TfidfEncoder
from tagwood.features.base import IGNORED, MARK, UNSPACED, char_tables, fold_text

PAGE = Page("benchmarks", "tfidf")
SETS = ("eurlex57k", "yso-titles")


def read_texts(name: str, part: str, n: int) -> list[str]:
    with gzip.open(SHARED / name / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in itertools.islice(lines, n)]


def char_set(kind: int) -> str:
    """Return the code points of a class as the inside of a regular expression's [...]."""
    codes = np.flatnonzero(char_tables(True).classes == kind)
    runs = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs)


def our_words() -> tuple[Callable[[str], str], str]:
    """Return the preprocessor and token pattern with which scikit-learn finds our words."""
    ignored = re.compile(f"[{char_set(IGNORED)}]")
    unspaced, mark = char_set(UNSPACED), char_set(MARK)
    pattern = f"[{unspaced}][{mark}]*|(?:(?![{unspaced}])[\\w{mark}]){{2,}}"
    return lambda text: ignored.sub("", fold_text(text)), pattern


def largest_difference(ours: TfidfEncoder, train: list[str], test: list[str]) -> float:
    """Return the largest difference of any value between ours and scikit-learn's with the same words."""
    preprocessor, pattern = our_words()
    theirs = TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True, preprocessor=preprocessor, token_pattern=pattern
    ).fit(train)
    place = {name: column for column, name in enumerate(theirs.get_feature_names_out())}
    cut = re.compile(pattern)
    columns = [place.pop(" ".join(cut.findall(name))) for name in ours.feature_names()]
    if place:
        raise SystemExit(f"{len(place)} features are missing from ours, such as {list(place)[:3]}")
    left = ours.transform(test).astype(np.float64)
    right = sparse.csr_array(theirs.transform(test).tocsc()[:, columns])
    return float(abs(left - right).max())


def latency(work: Callable[[str], Any], texts: list[str]) -> tuple[float, float]:
    """Return median and 99th percentile in microseconds of one text at a time."""
    times = []
    for text in texts[:50] + texts:
        start = time.perf_counter()
        work(text)
        times.append(time.perf_counter() - start)
    return float(np.median(times[50:]) * 1e6), float(np.percentile(times[50:], 99) * 1e6)


def measure(name: str, n_train: int, n_test: int, repeats: int) -> dict[str, Any]:
    train, test = read_texts(name, "train", n_train), read_texts(name, "test", n_test)
    ours = TfidfEncoder(threads=1)
    theirs = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    fit = {
        "tagwood": least_cpu_seconds(lambda: ours.fit(train), 1),
        "sklearn": least_cpu_seconds(lambda: theirs.fit(train), 1),
    }
    transform = {
        "tagwood": least_cpu_seconds(lambda: ours.transform(test), repeats),
        "sklearn": least_cpu_seconds(lambda: theirs.transform(test), repeats),
    }
    some = test[:1000]
    return {
        "set": name,
        "train_texts": len(train),
        "test_texts": len(test),
        "characters_per_text": round(sum(map(len, test)) / len(test)),
        "features": ours.n_features,
        "fit_cpu_seconds": fit,
        "transform_cpu_seconds": transform,
        "rows_per_cpu_second": {side: len(test) / seconds for side, seconds in transform.items()},
        "speed_up": transform["sklearn"] / transform["tagwood"],
        "latency_us": {
            "tagwood arrays": latency(lambda text: ours.transform_parts([text]), some),
            "tagwood": latency(lambda text: ours.transform([text]), some),
            "sklearn": latency(lambda text: theirs.transform([text]), some),
        },
        "largest_difference": largest_difference(ours, train, test),
    }


def page_blocks(results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the table."""
    header = [
        "set", "texts", "characters per text", "features", "rows per CPU s: tagwood", "scikit-learn", "speed-up",
        "fit CPU s: tagwood", "scikit-learn", "one text, median µs: tagwood (arrays)", "tagwood", "scikit-learn",
        "largest difference",
    ]  # fmt: skip
    cells = []
    for r in results:
        rows, fit, one = r["rows_per_cpu_second"], r["fit_cpu_seconds"], r["latency_us"]
        sizes = (r["test_texts"], r["characters_per_text"], r["features"], rows["tagwood"], rows["sklearn"])
        times = (r["speed_up"], fit["tagwood"], fit["sklearn"])
        single = (one[side][0] for side in ("tagwood arrays", "tagwood", "sklearn"))
        difference = f"{r['largest_difference']:.1e}"
        cells.append([r["set"], *(f"{n:,.0f}" for n in sizes), *map(number, (*times, *single)), difference])
    yield table(header, cells)


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--train", type=int, default=50_000, help="training texts per set")
    parser.add_argument("--test", type=int, default=20_000, help="test texts per set")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit("the real datasets are not in ../shared/data")
    results = [measure(name, args.train, args.test, args.repeats) for name in SETS]
    PAGE.save(args.out, results)
    PAGE.write(args.out, page_blocks(results))
    for result in results:
        if result["speed_up"] < 5 or result["largest_difference"] > 1e-6:
            raise SystemExit(f"{result['set']}: less than 5 times faster, or not equal to 1e-6")


if __name__ == "__main__":
    main()
