"""`tagwood eval`: how good a model or saved predictions are. In: either, and true labels. Out: a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli.common import JsonFlag, load_tagger, print_data, print_json, say
from tagwood.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

    from tagwood.data import Dataset, LabelVocab
    from tagwood.metrics import LabelCounts, Report
    from tagwood.ranking import Ranking
    from tagwood.tagger import Tagger


def eval_command(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|PREDICTIONS",
            help="Model folder, or saved predictions: JSON lines, or .npz with a score matrix.",
        ),
    ],
    truth: Annotated[
        Path, typer.Argument(help="Dataset with the true labels of the same rows, in any supported format.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="Metric, such as P@5, nDCG@3, PSP@5, micro-F1 (repeatable)."),
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Training dataset, for propensities and slices.")] = None,
    propensity: Annotated[
        str,
        typer.Option(
            help="Propensity model: default, wikipedia, amazon, or the constants A,B such as 0.55,1.5."
        ),
    ] = "default",
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", help="Measure only the first labels of each row.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Add bootstrap intervals of this level, such as 0.95.")
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="Also report head, torso and tail labels separately.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    format: Annotated[  # noqa: A002  the option is called --format
        str | None, typer.Option(help="Format of the datasets; detected by default.")
    ] = None,
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics-file", "-M", help="File to write the report to, as JSON.")
    ] = None,
    results_file: Annotated[
        Path | None,
        typer.Option("--results-file", "-r", help="File to write counts and scores per label to, as TSV."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Measure a model, or saved predictions, against the true labels.

    A model returns as many labels as the metrics need; metrics of sets, such as micro-F1, use its set rule. --train is
    needed for saved predictions only: a model stores the label counts of its training data.
    """
    model = predictions.is_dir()
    constants = check_options(metric, propensity, slices=slices, trained=model or train is not None)
    if model:
        data = rank_truth(predictions, truth, metric, train=train, data_format=format, limit=limit)
    else:
        data = read_data(predictions, truth, train=train, data_format=format, limit=limit)
    if data.n_unknown:
        say(f"{data.n_unknown:,} predicted labels are unknown to {truth.name}; they count as wrong.")
    report = measure(
        data,
        metrics=metric or None,
        propensity=constants,
        confidence=confidence,
        slices=slices,
        seed=seed,
    )
    if metrics_file is not None:
        metrics_file.write_text(report.to_json() + "\n", encoding="utf-8")
    if results_file is not None:
        write_label_scores(data, results_file)
    if json:
        print_json(report.to_dict())
    else:
        print_data(report.to_table())


class EvalData(NamedTuple):
    """The ranking, the true labels and the training labels, all over one label table.

    `sets` are measured by metrics of label sets, where they are not the whole ranking.
    """

    ranking: Ranking
    truth: sparse.csr_array
    train: sparse.csr_array | LabelCounts | None
    vocab: LabelVocab
    n_unknown: int
    sets: Ranking | None = None


def read_data(
    predictions: Path,
    truth: Path,
    *,
    train: Path | None = None,
    data_format: str | None = None,
    limit: int | None = None,
) -> EvalData:
    """Read predictions, true and training labels over one label table, which gains the labels that files name."""
    from tagwood.data import read_dataset
    from tagwood.data.predictions import read_ranking

    training = None if train is None else read_dataset(train, data_format)
    known = None if training is None or training.vocab.names is None else training.vocab
    rows = read_dataset(truth, data_format, vocab=known, on_unknown="error" if known is None else "add")
    ranking, vocab = read_ranking(predictions, _widest(rows, training), on_unknown="add")
    return EvalData(
        ranking if limit is None else ranking.top(limit),
        widen(rows.labels, len(vocab)),
        None if training is None else widen(training.labels, len(vocab)),
        vocab,
        len(vocab) - max(rows.n_labels, 0 if training is None else training.n_labels),
    )


def measure(data: EvalData, **options: Any) -> Report:
    """Return the report of a data; `options` are those of `tagwood.metrics.evaluate`."""
    from tagwood.metrics import evaluate, parse_metrics

    options["train_labels"] = data.train
    wanted = options.pop("metrics", None)
    if data.sets is None or not wanted:
        return evaluate(data.truth, data.ranking, metrics=wanted, **options)
    names = parse_metrics(wanted)
    halves = [
        evaluate(data.truth, ranking, metrics=[str(name) for name in some], **options)
        for ranking, some in (
            (data.ranking, [name for name in names if name.k is not None]),
            (data.sets, [name for name in names if name.k is None]),
        )
        if some
    ]
    return halves[0] if len(halves) == 1 else join_reports(*halves)


def join_reports(first: Report, second: Report) -> Report:
    """Return one report with the measures of both, those of the first one first."""
    from dataclasses import replace

    slices = tuple(
        replace(one, measures=one.measures + other.measures)
        for one, other in zip(first.slices, second.slices, strict=True)
    )
    return replace(
        first,
        measures=first.measures + second.measures,
        propensity=first.propensity or second.propensity,
        slices=slices,
    )


def check_options(
    metrics: list[str] | None, propensity: str, *, slices: bool, trained: bool
) -> str | tuple[float, float]:
    """Check options before large files are read; return the parsed propensity."""
    from tagwood.metrics import describe_propensity, parse_metrics

    wanting = [str(name) for name in parse_metrics(metrics or ["P@1"]) if name.needs_counts]
    wanting += ["--slices"] if slices else []
    if wanting and not trained:
        raise InputError(
            f"{', '.join(wanting)} must know how often each label occurs in the training data",
            hint="Give it with --train FILE.",
        )
    parsed = parse_propensity(propensity)
    describe_propensity(parsed)
    return parsed


def parse_propensity(text: str) -> str | tuple[float, float]:
    """Return a preset's name or the pair (A, B).

    Examples
    --------
    >>> parse_propensity("amazon"), parse_propensity("0.5,0.4")
    ('amazon', (0.5, 0.4))
    """
    if "," not in text:
        return text
    try:
        a, b = map(float, text.split(","))
    except ValueError as error:
        raise InputError("--propensity must be a preset or two numbers A,B", given=repr(text)) from error
    return a, b


def write_label_scores(data: EvalData, path: Path) -> None:
    """Write one line for each label that is true or was returned: counts, precision, recall and F1."""
    import numpy as np

    from tagwood.data.files import open_for_writing
    from tagwood.metrics import LabelCounts, label_scores

    scores = label_scores(data.truth, data.ranking if data.sets is None else data.sets)
    seen = None if data.train is None else LabelCounts.of(data.train).counts
    columns = ["label", "name", *(["train_rows"] if seen is not None else [])]
    columns += ["true_rows", "returned_rows", "hits", "precision", "recall", "f1"]
    precision, recall, f1 = scores.precision, scores.recall, scores.f1
    with open_for_writing(path) as file:
        file.write("\t".join(columns) + "\n")
        for label in np.flatnonzero(scores.true + scores.returned).tolist():
            name = " ".join(data.vocab.name(label).split())
            cells = [label, name, *([seen[label]] if seen is not None else [])]
            cells += [scores.true[label], scores.returned[label], scores.hits[label]]
            cells += [f"{value[label]:.6g}" for value in (precision, recall, f1)]
            file.write("\t".join(map(str, cells)) + "\n")


def _widest(rows: Dataset, training: Dataset | None) -> LabelVocab:
    return rows.vocab if training is None or len(training.vocab) <= len(rows.vocab) else training.vocab


def widen(labels: sparse.csr_array, n_labels: int) -> sparse.csr_array:
    """Return the matrix with empty columns for further labels."""
    wide = labels.copy()
    wide.resize(labels.shape[0], n_labels)
    return wide


def rank_truth(
    model: Path,
    truth: Path,
    metrics: list[str] | None,
    *,
    train: Path | None = None,
    data_format: str | None = None,
    limit: int | None = None,
) -> EvalData:
    """Rank the texts of a dataset with a model and return what is measured.

    Labels unknown to the model are added to the label table and count as missed.
    """
    from tagwood.data import read_dataset
    from tagwood.metrics import parse_metrics

    tagger = load_tagger(model)
    rows = read_dataset(truth, data_format, vocab=tagger.vocab_, on_unknown="add")
    if rows.texts is None:
        raise InputError(f"{truth} must hold texts", given="features only")
    training = None
    if train is not None:
        training = read_dataset(train, data_format, vocab=rows.vocab, on_unknown="skip").labels
    names = parse_metrics(metrics) if metrics else []
    k = limit or max([name.k for name in names if name.k is not None], default=5)
    n_labels = rows.n_labels
    return EvalData(
        _wider(tagger.rank(rows.texts, k=k), n_labels),
        rows.labels,
        widen(training, n_labels) if training is not None else _counts(tagger, n_labels),
        rows.vocab,
        0,
        _wider(tagger.rank_sets(rows.texts), n_labels) if any(name.k is None for name in names) else None,
    )


def _counts(tagger: Tagger, n_labels: int) -> LabelCounts:
    import numpy as np

    from tagwood.metrics import LabelCounts

    counts = np.zeros(n_labels, dtype=np.int64)
    counts[: tagger.label_counts_.size] = tagger.label_counts_
    return LabelCounts(counts, tagger.n_rows_)


def _wider(ranking: Ranking, n_labels: int) -> Ranking:
    from tagwood.ranking import Ranking

    return Ranking(ranking.indptr, ranking.labels, ranking.scores, n_labels)
