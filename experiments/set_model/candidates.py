"""Candidates of the set model: the best 30 labels of an ensemble for rows that its members have not seen.

In: a set's name. Out: `Candidates` of held-out training rows (to learn from) and of test rows: probabilities, scores of
the members, MiniLM cosines of text and label, and how often two labels of a row occur together. They are cached in
build/: making them takes minutes, learning from them seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import ROOT
from benchmarks.problems import read_splits
from experiments.otseq2set.data import eurovoc_names, tate_names
from experiments.prime.data import label_texts
from tagwood import Ensemble, LinearTree, Neighbours, TextEncoder, TfidfEncoder
from tagwood._sparse import check_labels
from tagwood.models.ensemble.members import Inputs
from tagwood.models.name_matcher import NameMatcher
from tagwood.ranking import Ranking

K = 30
SETS = ("eurlex57k", "tibkat-gnd-en", "tate-subjects")
SIZES = (15_000, 4_000)  # training and test rows
QUICK = (5_200, 300)  # fewer rows would be held out in rounds, and members would know them
HELD_OUT = 0.4  # share of the training rows whose candidates are learned from
KEPT = ROOT / "build" / "set_model"
WORDS = 250  # of a text, which the ensemble reads
TOKENS = {"eurlex57k": 64, "tibkat-gnd-en": 32, "tate-subjects": 32}  # of a text, which MiniLM reads
_MOST_TRUE = 500  # true labels of a row
FOLDED = 32  # dimensions of label vectors that the network sees


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best `K` labels of each row; -1 and zeros where a row has fewer.

    `labels`, `probabilities` and `right` are (n_rows, K), `scores` (n_rows, K, n_scores) those of the members,
    `cosines` (n_rows, K) those of text and label, `together` (n_rows, K, K) P(other label | label) in other training
    rows. `n_true` (n_rows,) counts all true labels, also those that are no candidates. `vectors` (n_labels, FOLDED) are
    unit label vectors.
    """

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    scores: NDArray[np.float32]
    cosines: NDArray[np.float32]
    together: NDArray[np.float32]
    right: NDArray[np.bool_]
    n_true: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, rows: NDArray[Any]) -> Candidates:
        """Return some of the rows."""
        parts = [getattr(self, one.name)[rows] for one in fields(self)[:-1]]
        return Candidates(*parts, self.vectors)

    def ranking(self, probabilities: NDArray[Any] | None = None) -> Ranking:
        """Return the candidates with their own or other probabilities, as a ranking."""
        values = self.probabilities if probabilities is None else probabilities
        found = [
            sorted(((int(label), float(p)) for label, p in zip(ids, row, strict=True) if label >= 0), key=_falling)
            for ids, row in zip(self.labels, values, strict=True)
        ]
        return Ranking.from_lists(found, n_labels=self.n_columns)

    def truth(self) -> sparse.csr_array:
        """Return the true labels; those that are no candidates are only counted, in columns after the last label."""
        n_labels = len(self.vectors)
        missed = self.n_true - self.right.sum(axis=1)
        rows, places = np.nonzero(self.right)
        extra = np.repeat(np.arange(len(self)), missed)
        columns = np.arange(extra.size) - np.repeat(np.cumsum(missed) - missed, missed) + n_labels
        indices = np.concatenate([self.labels[rows, places], columns])
        cells = np.ones(indices.size, dtype=np.float32), (np.concatenate([rows, extra]), indices)
        return check_labels(sparse.csr_array(cells, shape=(len(self), self.n_columns)))

    @property
    def n_columns(self) -> int:
        """Labels, and room for true labels that are no candidates."""
        return len(self.vectors) + _MOST_TRUE


def _falling(pair: tuple[int, float]) -> tuple[float, int]:
    return -pair[1], pair[0]


def read_candidates(name: str, quick: bool = False) -> tuple[Candidates, Candidates]:
    """Return the candidates of held-out training rows and of test rows, from the cache if they are there."""
    paths = [KEPT / f"{name}{'-quick' if quick else ''}-{part}.npz" for part in ("held", "test")]
    if not all(path.exists() for path in paths):
        KEPT.mkdir(parents=True, exist_ok=True)
        for path, found in zip(paths, make_candidates(name, *(QUICK if quick else SIZES)), strict=True):
            _write(path, found)
    return _read(paths[0]), _read(paths[1])


def _write(path: Path, found: Candidates) -> None:
    with path.open("wb") as file:
        np.savez(file, **{one.name: getattr(found, one.name) for one in fields(found)})


def _read(path: Path) -> Candidates:
    with np.load(path) as file:
        return Candidates(**{one.name: file[one.name] for one in fields(Candidates)})


def make_candidates(name: str, n_train: int, n_test: int) -> tuple[Candidates, Candidates]:
    """Fit an ensemble of tree, neighbours and names on a part of the rows, and rank the others and the test rows."""
    train, test = read_splits(name)
    random = np.random.default_rng(0)
    train = train.rows(np.sort(random.permutation(train.n_rows)[:n_train]))
    test = test.rows(np.sort(random.permutation(test.n_rows)[:n_test]))
    used = np.flatnonzero(np.bincount(train.labels.indices, minlength=train.n_labels))
    Y, Y_test = (sparse.csr_array(part.labels[:, used]) for part in (train, test))
    named = label_names(name)
    names = [named(train.vocab.name(int(label))) for label in used]
    texts, test_texts = ([" ".join(text.split()[:WORDS]) for text in part.texts or ()] for part in (train, test))
    members = [LinearTree(threads=1), Neighbours(threads=1), NameMatcher(threads=1)]
    model = Ensemble(
        members, encoder=TfidfEncoder(threads=1), holdout=HELD_OUT, prune=False, refit=False, candidates=K, threads=1
    ).fit(texts, Y, label_texts=names)
    held = model.held_out_
    assert held is not None
    kept = np.setdiff1d(np.arange(Y.shape[0]), held.rows)
    counts = sparse.csr_array(Y[kept].T @ Y[kept])
    encoder = TextEncoder("minilm", max_length=TOKENS[name], threads=1).fit([])
    label_vectors = encoder.transform(names)
    found = []
    for rows, ranking, truth in (
        ([texts[row] for row in held.rows], held.ranking, held.truth),
        (test_texts, model.rank(test_texts, k=K), Y_test),
    ):
        table = _table(ranking.top(K))
        cosines = np.einsum("nd,nkd->nk", encoder.transform(rows), label_vectors[np.maximum(table[0], 0)])
        cosines[table[0] < 0] = 0
        scores = member_scores(model, rows, table[0])
        right = _among(sparse.csr_array(truth), table[0])
        n_true = np.diff(sparse.csr_array(truth).indptr).astype(np.int64)
        found.append(
            Candidates(*table, scores, cosines, _together(counts, table[0]), right, n_true, _folded(label_vectors))
        )
    return found[0], found[1]


def label_names(name: str) -> Any:
    """Return the function from the labels of a set to their names."""
    if name == "eurlex57k":
        return eurovoc_names()
    if name == "tate-subjects":
        return tate_names()
    known = label_texts(name)
    return lambda key: known.get(key, key)


def _table(ranking: Ranking) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return labels and probabilities of a ranking as (n_rows, K) arrays."""
    labels = np.full((ranking.n_rows, K), -1, dtype=np.int64)
    values = np.zeros((ranking.n_rows, K), dtype=np.float32)
    sizes = np.diff(ranking.indptr)
    rows = np.repeat(np.arange(ranking.n_rows), sizes)
    places = np.arange(rows.size) - np.repeat(ranking.indptr[:-1], sizes)
    labels[rows, places], values[rows, places] = ranking.labels, ranking.scores
    return labels, values


def member_scores(model: Ensemble, texts: list[str], labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return (n_rows, K, 2 * n_members): a member's score, 0 if it did not find the label, and whether it did."""
    inputs = Inputs.encode(model.members_, model.encoder_, texts)
    rankings = [member.rank(own, 2 * K, None) for member, own in zip(model.members_, inputs.of, strict=True)]
    rows, places = np.nonzero(labels >= 0)
    found = np.zeros((*labels.shape, 2 * len(rankings)), dtype=np.float32)
    for number, ranking in enumerate(rankings):
        own = rows * np.int64(model.n_labels_) + labels[rows, places]
        theirs = np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr)) * model.n_labels_ + ranking.labels
        order = np.argsort(theirs, kind="stable")
        at = np.minimum(np.searchsorted(theirs[order], own), theirs.size - 1)
        hit = theirs[order][at] == own
        found[rows[hit], places[hit], 2 * number] = ranking.scores[order][at][hit]
        found[rows[hit], places[hit], 2 * number + 1] = 1.0
    return found


def _together(counts: sparse.csr_array, labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return (n_rows, K, K): the share of the rows of a candidate that have the other one too; 0 on the diagonal."""
    alone = counts.diagonal()
    known = np.maximum(labels, 0)
    found = np.zeros((len(labels), K, K), dtype=np.float32)
    for row, ids in enumerate(known):
        found[row] = counts[ids][:, ids].toarray() / (alone[ids][:, None] + 1.0)
    found *= (labels >= 0)[:, :, None] & (labels >= 0)[:, None, :] & ~np.eye(K, dtype=bool)
    return found


def _among(truth: sparse.csr_array, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    n_labels = np.int64(truth.shape[1])
    true = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr)) * n_labels + truth.indices
    return np.isin(np.arange(len(labels))[:, None] * n_labels + labels, true) & (labels >= 0)


def _folded(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the label vectors in their main directions, of norm 1."""
    centred = torch.from_numpy(vectors - vectors.mean(axis=0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        main = torch.pca_lowrank(centred, q=min(FOLDED, *centred.shape))[2]
    folded = (centred @ main).numpy()
    return np.asarray(folded / np.maximum(np.linalg.norm(folded, axis=1, keepdims=True), 1e-9), dtype=np.float32)
