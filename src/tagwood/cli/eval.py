"""`tagwood eval`: how good a model or saved predictions are. In: either, and true labels. Out: a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from scipy import sparse

    from tagwood.data import LabelVocab
    from tagwood.metrics import LabelCounts, Report
    from tagwood.ranking import Ranking


ANNIF_LIMIT = 10  # labels per text that `annif eval` measures by default


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
        typer.Option("--metric", "-m", help="Metric, such as P@5, nDCG@3, PSP@5, F1@5, micro-F1 (repeatable)."),
    ] = None,
    annif: Annotated[
        bool, typer.Option("--annif", help="Print the metrics of annif eval under its names, of 10 labels or --limit.")
    ] = False,
    train: Annotated[Path | None, typer.Option(help="Training dataset, for propensities and slices.")] = None,
    propensity: Annotated[
        str,
        typer.Option(help="Propensity model: default, wikipedia, amazon, or the constants A,B such as 0.55,1.5."),
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
    text_columns: common.TextColumnsOption = None,
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics-file", "-M", help="File to write the report to, as JSON.")
    ] = None,
    results_file: Annotated[
        Path | None,
        typer.Option("--results-file", "-r", help="File to write counts and scores per label to, as TSV."),
    ] = None,
    json: common.JsonFlag = False,
) -> None:
    """Measure a model, or saved predictions, against the true labels.

    A model returns as many labels as the metrics need; metrics of sets, such as micro-F1, use its set rule. --train is
    needed for saved predictions only: a model stores the label counts of its training data.
    """
    from tagwood.storage.publish import write_file

    if annif:
        if metric or slices or confidence is not None:
            raise InputError("--annif must stand alone", given="--metric, --slices or --confidence beside it")
        limit = limit or ANNIF_LIMIT
    model = predictions.is_dir()
    options: dict[str, Any] = {"confidence": confidence, "slices": slices, "seed": seed}
    options["propensity"] = check_options(metric, propensity, slices, trained=model or train is not None)
    if model:
        data = rank_truth(predictions, truth, train, format, limit, metric, text_columns)
    else:
        data = read_data(predictions, truth, train, format, limit)
    if data.n_unknown:
        common.say(f"{data.n_unknown:,} predicted labels are unknown to {truth.name}; they count as wrong.")
    report = AnnifReport.of(data) if annif else measure(data, metric or None, options)
    if metrics_file is not None:
        write_file(metrics_file, report.to_json() + "\n")
    if results_file is not None:
        write_label_scores(data, results_file)
    if json:
        common.print_json(report.to_dict())
    else:
        common.print_data(report.to_table())


class AnnifReport(NamedTuple):
    """The metrics of ``annif eval`` under its names."""

    values: dict[str, float]

    @classmethod
    def of(cls, data: EvalData) -> AnnifReport:
        """Measure a ranking."""
        from tagwood.metrics.annif import annif_measures

        return cls(annif_measures(data.truth, data.ranking))

    def to_dict(self) -> dict[str, float]:
        """Return the values by name."""
        return self.values

    def to_json(self) -> str:
        """Return the values as JSON."""
        import json

        return json.dumps(self.values, indent=2)

    def to_table(self) -> RenderableType:
        """Return the values as a table; counts are whole numbers."""
        counts = ("True", "False", "Documents")
        shown = {name: f"{v:.0f}" if name.startswith(counts) else f"{v:.4f}" for name, v in self.values.items()}
        return common.facts_table(shown)


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
    predictions: Path, truth: Path, train: Path | None, data_format: str | None, limit: int | None
) -> EvalData:
    """Read predictions, true and training labels over one label table, which gains the labels that files name."""
    from tagwood.data import read_dataset
    from tagwood.data.predictions import read_ranking

    training = None if train is None else read_dataset(train, data_format)
    known = None if training is None or training.vocab.names is None else training.vocab
    rows = read_dataset(truth, data_format, vocab=known, on_unknown="error" if known is None else "add")
    widest = rows if training is None or training.n_labels <= rows.n_labels else training
    ranking, vocab = read_ranking(predictions, widest.vocab, on_unknown="add")
    return EvalData(
        ranking if limit is None else ranking.top(limit),
        widen(rows.labels, len(vocab)),
        None if training is None else widen(training.labels, len(vocab)),
        vocab,
        len(vocab) - widest.n_labels,
    )


def measure(data: EvalData, metrics: list[str] | None, options: dict[str, Any]) -> Report:
    """Return a report; `options` are further ones of `tagwood.metrics.evaluate`."""
    from tagwood.metrics import evaluate, parse_metrics

    options["train_labels"] = data.train
    if data.sets is None or not metrics:
        return evaluate(data.truth, data.ranking, metrics=metrics, **options)
    names = parse_metrics(metrics)
    of_ranking = [str(name) for name in names if name.k is not None]
    of_sets = [str(name) for name in names if name.k is None]
    sets = evaluate(data.truth, data.sets, metrics=of_sets, **options)
    if not of_ranking:
        return sets
    ranked = evaluate(data.truth, data.ranking, metrics=of_ranking, **options)
    slices = tuple(
        replace(one, measures=one.measures + other.measures)
        for one, other in zip(ranked.slices, sets.slices, strict=True)
    )
    propensity = ranked.propensity or sets.propensity
    return replace(ranked, measures=ranked.measures + sets.measures, propensity=propensity, slices=slices)


def check_options(
    metrics: list[str] | None, propensity: str, slices: bool, *, trained: bool
) -> str | tuple[float, float]:
    """Check options before large files are read; return the parsed propensity."""
    from tagwood.metrics import describe_propensity, parse_metrics

    wanting = [str(name) for name in parse_metrics(metrics or ["P@1"]) if name.family.startswith("PS")]
    wanting += ["--slices"] if slices else []
    if wanting and not trained:
        raise InputError(
            f"{', '.join(wanting)} must know how often each label occurs in the training data",
            hint="Give it with --train FILE.",
        )
    parsed: str | tuple[float, float] = propensity
    if "," in propensity:
        try:
            a, b = map(float, propensity.split(","))
        except ValueError as error:
            words = "--propensity must be a preset or two numbers A,B"
            raise InputError(words, given=repr(propensity)) from error
        parsed = a, b
    describe_propensity(parsed)
    return parsed


def write_label_scores(data: EvalData, path: Path) -> None:
    """Write one line for each label that is true or was returned: counts, precision, recall and F1."""
    import numpy as np

    from tagwood.data.files import open_for_writing
    from tagwood.metrics import LabelCounts, label_scores
    from tagwood.storage.publish import replace_path

    scores = label_scores(data.truth, data.ranking if data.sets is None else data.sets)
    seen = None if data.train is None else LabelCounts.of(data.train).counts
    columns = ["label", "name", *(["train_rows"] if seen is not None else [])]
    columns += ["true_rows", "returned_rows", "hits", "precision", "recall", "f1"]
    precision, recall, f1 = scores.precision, scores.recall, scores.f1
    with replace_path(path, overwrite=True) as place, open_for_writing(place) as file:
        file.write("\t".join(columns) + "\n")
        for label in np.flatnonzero(scores.true + scores.returned).tolist():
            name = " ".join(data.vocab.name(label).split())
            cells = [label, name, *([seen[label]] if seen is not None else [])]
            cells += [scores.true[label], scores.returned[label], scores.hits[label]]
            cells += [f"{value[label]:.6g}" for value in (precision, recall, f1)]
            file.write("\t".join(map(str, cells)) + "\n")


def widen(labels: sparse.csr_array, n_labels: int) -> sparse.csr_array:
    """Return the matrix with empty columns for further labels."""
    wide = labels.copy()
    wide.resize(labels.shape[0], n_labels)
    return wide


def rank_truth(
    model: Path,
    truth: Path,
    train: Path | None,
    data_format: str | None,
    limit: int | None,
    metrics: list[str] | None,
    text_columns: str | None = None,
) -> EvalData:
    """Rank the texts of a dataset with a model and return what is measured."""
    import numpy as np

    from tagwood.data import read_dataset
    from tagwood.metrics import LabelCounts, parse_metrics

    tagger = common.load_tagger(model)
    rows = common.read_truth(tagger, truth, data_format, text_columns)
    texts, n_labels = rows.texts or (), rows.n_labels
    training: sparse.csr_array | LabelCounts
    if train is not None:
        known = read_dataset(train, data_format, vocab=rows.vocab, on_unknown="skip").labels
        training = widen(known, n_labels)
    else:
        counts = np.pad(tagger.label_counts_, (0, n_labels - tagger.label_counts_.size))
        training = LabelCounts(counts, tagger.n_rows_)
    names = parse_metrics(metrics) if metrics else []
    k = limit or max([name.k for name in names if name.k is not None], default=5)
    ranking = replace(tagger.rank(texts, k=k), n_labels=n_labels)
    sets = None
    if any(name.k is None for name in names):
        sets = replace(tagger.rank_sets(texts), n_labels=n_labels)
    return EvalData(ranking, rows.labels, training, rows.vocab, 0, sets)
