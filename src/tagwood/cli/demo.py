"""`tagwood demo`: the whole way on real text: corpus, statistics, training, evaluation, three questions.

In: nothing. Out: tables, or one JSON object. The corpus is `data.pydocs`; it needs no network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tagwood.cli.output import JsonFlag, facts_table, print_data, print_json, progress, say, show

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.ranking import Ranking

QUESTIONS = (
    "smooth a noisy signal",
    "parse command line arguments",
    "read a table of numbers from a text file",
)


def demo(json: JsonFlag = False) -> None:
    """Tag real text: the docstrings of this machine's Python.

    Labels are the functions, classes and modules that a passage describes or refers to.
    """
    from time import perf_counter

    from tagwood.cli.check import facts_of
    from tagwood.data import pydocs
    from tagwood.data.statistics import compute_statistics
    from tagwood.metrics import evaluate

    with progress("Reading docstrings") as advance:
        train, test = pydocs.build(pydocs.CORE_PACKAGES, progress=advance)
    statistics = compute_statistics(train, test)
    if not json:
        print_data("The docstrings of Python, NumPy, SciPy and scikit-learn")
        print_data(facts_table(facts_of(statistics)))
        for warning in statistics.warnings:
            say(f"! {warning}")
        say("Training ...")
    start = perf_counter()
    rank = _train_baseline(train)
    seconds = perf_counter() - start
    report = evaluate(test.labels, rank(test.texts or [], 5), train_labels=train.labels)
    answers = rank(QUESTIONS, 5).names(train.vocab)
    if json:
        print_json(
            {
                "data": statistics.to_dict(),
                "training_seconds": seconds,
                "metrics": report.to_dict(),
                "answers": dict(zip(QUESTIONS, answers, strict=True)),
            }
        )
    else:
        say(f"Trained a nearest-centroid baseline in {seconds:.1f} s.")
        print_data(report.to_table())
        print_data(_answer_table(answers))


def _train_baseline(train: Dataset) -> Callable[[Sequence[str], int], Ranking]:
    """Return a function (texts, k) -> Ranking: a label is the mean of its passages, the nearest labels win.

    Nearness is multiplied by (passages of the label) ** 0.3, or labels with one short passage win too often.
    The exponent and the word pairs are the best of 0, 0.15, 0.3, 0.45 with and without pairs on 15 % of the
    training passages held out; the test passages only measure the result.
    """
    import numpy as np
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    from tagwood.features.label_features import label_centroids
    from tagwood.ranking import Ranking

    encoder = TfidfVectorizer(sublinear_tf=True, stop_words="english", ngram_range=(1, 2), dtype=np.float32)
    frequent = sparse.diags_array(train.labels.sum(axis=0).astype(np.float32) ** np.float32(0.3))
    centroids = (frequent @ label_centroids(encoder.fit_transform(train.texts), train.labels)).T.tocsr()

    def rank(texts: Sequence[str], k: int) -> Ranking:
        features = sparse.csr_array(encoder.transform(texts))
        # A few hundred rows at a time: the scores of all labels of all rows would take gigabytes.
        blocks = [
            Ranking.from_csr(features[start : start + 500] @ centroids, k).to_csr()
            for start in range(0, features.shape[0], 500)
        ]
        return Ranking.from_csr(sparse.vstack(blocks, format="csr"))

    return rank


def _answer_table(answers: list[list[tuple[str, float]]]) -> Any:
    from rich.table import Table

    table = Table(title="Three questions", title_justify="left")
    table.add_column("question")
    table.add_column("labels, best first")
    for question, labels in zip(QUESTIONS, answers, strict=True):
        table.add_row(question, "\n".join(f"{name}  [dim]{show(score)}[/dim]" for name, score in labels))
    return table
