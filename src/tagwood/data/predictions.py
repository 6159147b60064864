"""Rankings on disk: JSON lines with label names or ids, or a CSR matrix of scores as ``.npz``.

In: a file and a label table. Out: a `Ranking` and its label table, and back.

JSON lines have one row each: ``{"labels": [...], "scores": [...]}`` with names (or URIs) or ids; without ``scores``,
labels are in falling order. ``[{"label": ..., "score": ...}, ...]`` is read too, alone or under ``"labels"``. ``.npz``
files are those of ``scipy.sparse.save_npz``; stored entries are the returned labels. Labels may be in any order; equal
scores keep their order in the file.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tagwood._check import check_choice
from tagwood._lazy import sparse
from tagwood.data.files import open_for_writing, parse_json, parsed_lines
from tagwood.data.formats.csr_files import load_matrix
from tagwood.data.records import LabelIds, Named
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError
from tagwood.ranking import Ranking
from tagwood.storage.publish import replace_path

_LARGEST = float(np.finfo(np.float32).max)


class SavedRanking(NamedTuple):
    """A ranking and the label table its ids belong to."""

    ranking: Ranking
    vocab: LabelVocab


def read_ranking(path: str | Path, vocab: LabelVocab | None = None, *, on_unknown: str = "error") -> SavedRanking:
    """Read a ranking from a ``.npz`` file, or JSON lines (any other name; gzip or not).

    `vocab` is the label table of names and ids; None: the labels in the file. Labels that are not in it are an
    ``"error"``, or `on_unknown` is ``"skip"``, or ``"add"``: they come after the known ones and count as wrong
    answers.
    """
    path = Path(path)
    check_choice(on_unknown, "on_unknown", ["error", "skip", "add"])
    read = _read_npz if path.suffix == ".npz" else _read_lines
    return read(path, vocab, on_unknown)


def write_ranking(ranking: Ranking, path: str | Path, vocab: LabelVocab | None = None) -> None:
    """Write a ranking: ``.npz`` with ids, or JSON lines with the names of `vocab` (ids without one).

    Examples
    --------
    >>> import tempfile
    >>> vocab = LabelVocab.from_names(["ash", "oak"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ranking.jsonl"
    ...     write_ranking(Ranking.from_lists([[(1, 0.75), (0, 0.5)], []], n_labels=2), path, vocab)
    ...     print(path.read_text(), read_ranking(path, vocab).ranking[0])
    {"labels": ["oak", "ash"], "scores": [0.75, 0.5]}
    {"labels": [], "scores": []}
     [(1, 0.75), (0, 0.5)]
    """
    path = Path(path)
    if vocab is not None and len(vocab) != ranking.n_labels:
        raise InputError(
            f"the vocabulary must have the {ranking.n_labels:,} labels of the ranking",
            given=f"{len(vocab):,}",
        )
    if path.suffix == ".npz":  # as scipy.sparse.save_npz writes it, with the entries in rank order
        shape = np.array([ranking.n_rows, ranking.n_labels], dtype=np.int64)
        arrays: Any = {"indptr": ranking.indptr, "indices": ranking.labels, "data": ranking.scores}
        with replace_path(path, overwrite=True) as place, place.open("wb") as file:
            np.savez_compressed(file, format=np.array(b"csr"), shape=shape, **arrays)
        return
    keys: Any = range(ranking.n_labels) if vocab is None or vocab.names is None else vocab.keys()
    # The shortest decimals that are the same float32.
    labels, scores = ranking.labels.tolist(), [float(text) for text in ranking.scores.astype(str)]
    with replace_path(path, overwrite=True) as place, open_for_writing(place) as lines:
        for begin, end in pairwise(ranking.indptr.tolist()):
            row = {"labels": [keys[label] for label in labels[begin:end]], "scores": scores[begin:end]}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def _read_lines(path: Path, vocab: LabelVocab | None, on_unknown: str) -> SavedRanking:
    numbered = vocab is not None and vocab.names is None and vocab.uris is None and on_unknown == "add"
    ids = LabelIds(vocab, on_unknown)
    labels, scores, ends = array("q"), array("f"), array("q", [0])

    def parse(line: str) -> list[tuple[int, float]]:
        pairs = _parse_row(line)
        if numbered:
            pairs = [(_as_number(label), score) for label, score in pairs]
        known = [(label, score) for key, score in pairs for label in ids.of([key])]
        if len({label for label, _ in known}) < len(known):
            raise DataError("contains a label twice")
        return known

    for _, known in parsed_lines(path, parse, blank_lines=True):
        labels.extend(label for label, _ in known)
        scores.extend(score for _, score in known)
        ends.append(len(labels))
    rows, found = ids.table(np.array(labels, np.int64))
    arrays = np.array(ends, dtype=np.int64), rows, np.array(scores, np.float32)
    return SavedRanking(Ranking(*arrays, n_labels=len(found)), found)


def _parse_row(line: str) -> list[tuple[int | str | Named, float]]:
    """Return (label, score) pairs in falling order of score."""
    row = parse_json(line)
    items = row.get("labels") if isinstance(row, dict) else row
    if not isinstance(items, list):
        raise DataError(
            "is neither an object with 'labels' nor a list of labels",
            hint='A row without labels is {"labels": []}.',
        )
    scores = row.get("scores") if isinstance(row, dict) else None
    if scores is None and any(isinstance(item, dict) and "score" in item for item in items):
        scores = [item.get("score") if isinstance(item, dict) else None for item in items]
    if scores is None:
        scores = [1.0 / place for place in range(1, len(items) + 1)]
    if not isinstance(scores, list) or len(scores) != len(items):
        raise DataError(f"has {len(items)} labels, but not as many scores")
    pairs = [(_label_of(item), _score_of(score)) for item, score in zip(items, scores, strict=True)]
    return sorted(pairs, key=lambda pair: -pair[1])


def _label_of(item: Any) -> int | str | Named:
    if isinstance(item, dict):
        name, uri = item.get("label", ""), item.get("uri", "")
        if isinstance(uri, str) and uri and isinstance(name, str):
            return Named(uri, name)
        item = name
    if isinstance(item, bool) or not isinstance(item, int | str) or item == "":
        raise DataError(f"{item!r} is not a label", hint="Labels are names, URIs or ids.")
    return item


def _score_of(score: Any) -> float:
    number = isinstance(score, int | float) and not isinstance(score, bool)
    if not number or not abs(score) <= _LARGEST:
        raise DataError(f"{score!r} is not a score", hint="Scores are finite numbers.")
    return float(score)


def _as_number(label: int | str | Named) -> int:
    if isinstance(label, int):
        return label
    key = label if isinstance(label, str) else label.uri
    if not (key.isascii() and key.isdecimal() and len(key) < 11):
        raise DataError(f"label {key!r} is a name, but the label table has no names")
    return int(key)


def _read_npz(path: Path, vocab: LabelVocab | None, on_unknown: str) -> SavedRanking:
    if not path.exists():
        raise DataError("there is no such file", path=path)
    matrix = load_matrix(path)
    try:
        ranking = _rank_stored(matrix)
    except InputError as error:
        raise DataError(error.expected, path=path, hint=error.hint) from error
    if vocab is None:
        return SavedRanking(ranking, LabelVocab.numbered(ranking.n_labels))
    if ranking.n_labels > len(vocab):
        if on_unknown == "error":
            raise DataError(
                f"has {ranking.n_labels:,} labels, the vocabulary {len(vocab):,}",
                path=path,
                hint="Allow unknown labels with on_unknown 'add' or 'skip' (--on-unknown).",
            )
        if on_unknown == "skip":
            known = ranking.keep(ranking.labels < len(vocab))
            return SavedRanking(replace(known, n_labels=len(vocab)), vocab)
        extra = range(len(vocab), ranking.n_labels)
        vocab = LabelVocab.numbered(ranking.n_labels) if vocab.names is None else vocab.add([f"#{i}" for i in extra])
    return SavedRanking(replace(ranking, n_labels=len(vocab)), vocab)


def _rank_stored(matrix: sparse.csr_array) -> Ranking:
    """Order the stored entries of each row by score; equal scores stay in stored order."""
    with np.errstate(over="ignore"):  # an overflow raises an error below
        scores = matrix.data.astype(np.float32)
    if not np.isfinite(scores).all():
        raise InputError("scores must be finite numbers")
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((np.arange(rows.size), -scores, rows))
    return Ranking(matrix.indptr, matrix.indices[order], scores[order], int(matrix.shape[1]))
