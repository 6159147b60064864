"""TF-IDF beside scikit-learn's: rows per CPU second, latency of one text, equality of the result.

Run with ``python -m benchmarks.tfidf``; needs the real datasets in ../shared/data. Both sides learn word
1-2-grams with min_df=2 and sublinear tf from the same texts and use one thread. The clock runs on
scikit-learn as it comes (lower case, no normalisation), and on ours with all folding. Equality is checked on
every row against scikit-learn with our folding and our words as its preprocessor and token pattern.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from tagwood.features import TfidfEncoder
from tagwood.features.base import IGNORED, MARK, UNSPACED, char_tables, fold_text

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "docs" / "benchmarks"
SETS = ("eurlex57k", "yso-titles")


def read_texts(name: str, part: str, n: int) -> list[str]:
    with gzip.open(DATA / name / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
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


def cpu_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the CPU seconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


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
        "tagwood": cpu_seconds(lambda: ours.fit(train), 1),
        "sklearn": cpu_seconds(lambda: theirs.fit(train), 1),
    }
    transform = {
        "tagwood": cpu_seconds(lambda: ours.transform(test), repeats),
        "sklearn": cpu_seconds(lambda: theirs.transform(test), repeats),
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


def table(results: list[dict[str, Any]]) -> str:
    heads = [
        "set", "texts", "letters a text", "features",
        "rows per CPU second: tagwood", "scikit-learn", "times faster",
        "fit CPU s: tagwood", "scikit-learn",
        "one text, median µs: tagwood (arrays)", "tagwood", "scikit-learn",
        "largest difference",
    ]  # fmt: skip
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}."
    lines = [
        *("# TF-IDF against scikit-learn", "", (__doc__ or "").split("\n\n", 1)[1].strip(), "", machine, ""),
        f"| {' | '.join(heads)} |",
        "|---|" + "---:|" * (len(heads) - 1),
    ]
    for r in results:
        rows, fit, one = r["rows_per_cpu_second"], r["fit_cpu_seconds"], r["latency_us"]
        lines.append(
            f"| {r['set']} | {r['test_texts']:,} | {r['characters_per_text']:,} | {r['features']:,} "
            f"| {rows['tagwood']:,.0f} | {rows['sklearn']:,.0f} | {r['speed_up']:.1f} "
            f"| {fit['tagwood']:.1f} | {fit['sklearn']:.1f} "
            f"| {one['tagwood arrays'][0]:.1f} | {one['tagwood'][0]:.1f} | {one['sklearn'][0]:.1f} "
            f"| {r['largest_difference']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=50_000, help="training texts per set")
    parser.add_argument("--test", type=int, default=20_000, help="test texts per set")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if not DATA.exists():
        raise SystemExit("the real datasets are not in ../shared/data")
    results = [measure(name, args.train, args.test, args.repeats) for name in SETS]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tfidf.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    (args.out / "tfidf.md").write_text(table(results), encoding="utf-8")
    print(table(results))
    for result in results:
        if result["speed_up"] < 5 or result["largest_difference"] > 1e-6:
            raise SystemExit(f"{result['set']}: less than 5 times faster, or not equal to 1e-6")


if __name__ == "__main__":
    main()
