"""`tagwood eval`: how good a model or saved predictions are. In: either, and true labels. Out: a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.cli.models import load_ranker
from tagwood.cli.reading import Reading, first_rows, say_report, say_skipped, test_split, with_reading
from tagwood.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from scipy import sparse

    from tagwood.data import Dataset, LabelVocab, ReadReport
    from tagwood.metrics import LabelCounts, Report
    from tagwood.ranking import Ranking


ANNIF_LIMIT = 10  # labels per text that `annif eval` measures by default


@with_reading
def eval_command(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|PREDICTIONS",
            help="Model folder, or saved predictions: JSON lines, or .npz with a score matrix.",
        ),
    ],
    truth: Annotated[
        list[Path],
        typer.Argument(metavar="TRUTH", help="Datasets with the true labels of the same rows, in any format."),
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
        typer.Option(
            help="Propensity model: default, wikipedia, amazon, a dataset such as LF-AmazonTitles-131K, or the "
            "constants A,B such as 0.55,1.5."
        ),
    ] = "default",
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=1, help="Measure only the first labels of each row.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Add bootstrap intervals of this level, such as 0.95.")
    ] = None,
    filter_file: Annotated[
        Path | None,
        typer.Option(
            "--filter",
            help="File of pairs 'row label' that count neither as true nor as returned; filter_labels_test.txt beside "
            "TRUTH is found by itself.",
        ),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="Also report head, torso and tail labels separately.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    docs_limit: common.DocsLimitOption = None,
    jobs: common.JobsOption = None,
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
    json: common.JsonFlag = False,
    *,
    reading: Reading,
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
    source = Truth(truth, train, format, reading, filter_file, docs_limit)
    data = rank_truth(predictions, source, limit, metric, jobs) if model else read_data(predictions, source, limit)
    report = AnnifReport.of(data) if annif else measure(data, metric or None, options)
    if metrics_file is not None:
        write_file(metrics_file, report.to_json() + "\n")
    if results_file is not None:
        write_label_scores(data, results_file)
    say_losses(data, truth[0].name, reading, model=model)
    if json:
        counts = {"unknown_labels": data.n_unknown, "filtered_pairs": data.n_filtered, "reading": data.report.to_dict()}
        common.print_json(report.to_dict() | ({} if annif else counts))
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


def say_losses(data: EvalData, name: str, reading: Reading, *, model: bool) -> None:
    """Write to stderr how the true labels were read, and which labels cannot count as they are."""
    say_report(data.report, brief=True)
    say_skipped(reading)
    if data.n_filtered:
        common.say(f"{data.n_filtered:,} returned labels were left out by the filter file.")
    if data.n_unknown and model:
        common.say(
            f"! {data.n_unknown:,} labels of {name} are unknown to the model, on {data.n_missed:,} places; "
            "they count as missed."
        )
    elif data.n_unknown:
        common.say(f"! {data.n_unknown:,} predicted labels are unknown to {name}; they count as wrong.")


class Truth(NamedTuple):
    """Where the true labels, and the training labels, come from."""

    paths: list[Path]
    train: Path | None
    format: str | None
    reading: Reading
    filter_file: Path | None
    docs_limit: int | None

    def read(self, vocab: LabelVocab | None, on_unknown: str) -> tuple[Dataset, ReadReport]:
        """Read the true labels; a named filter file replaces the one beside them."""
        options = {"vocab": vocab, "on_unknown": on_unknown, "split": test_split(self.paths[0])}
        rows, report = self.reading.read(self.paths, self.format, **options)
        if self.filter_file is not None:
            from tagwood.data.filter_pairs import read_filter_pairs, without_pairs

            pairs = read_filter_pairs(self.filter_file, rows.n_rows, rows.n_labels)
            labels = without_pairs(rows.labels, pairs)
            report.labels_filtered += int(rows.labels.nnz - labels.nnz)
            report.labels_used = int(labels.nnz)
            rows = replace(rows, labels=labels, filter_pairs=pairs)
        return first_rows(rows, self.docs_limit), report


class EvalData(NamedTuple):
    """The ranking, the true labels and the training labels, all over one label table.

    `sets` are measured by metrics of label sets, where they are not the whole ranking.
    """

    ranking: Ranking
    truth: sparse.csr_array
    train: sparse.csr_array | LabelCounts | None
    vocab: LabelVocab
    n_unknown: int
    report: ReadReport
    sets: Ranking | None = None
    n_filtered: int = 0
    n_missed: int = 0


def read_data(predictions: Path, source: Truth, limit: int | None) -> EvalData:
    """Read predictions, true and training labels over one label table, which gains the labels that files name."""
    import numpy as np

    from tagwood.data.predictions import read_ranking

    reading, data_format = source.reading, source.format
    training = None if source.train is None else reading.read(source.train, data_format)[0]
    known = None if training is None or training.vocab.names is None else training.vocab
    rows, report = source.read(known, "error" if known is None else "add")
    widest = rows if training is None or training.n_labels <= rows.n_labels else training
    ranking, vocab = read_ranking(predictions, widest.vocab, on_unknown="add")
    if source.docs_limit is not None:
        ranking = ranking.rows(np.arange(min(source.docs_limit, ranking.n_rows)))
    if ranking.n_rows != rows.n_rows:
        raise InputError(
            f"{predictions} must have one ranking for each of the {rows.n_rows:,} rows of {source.paths[0]}",
            given=f"{ranking.n_rows:,}",
            hint="Of a folder with two splits the test split is measured.",
        )
    ranking, n_filtered = without_filtered(ranking, rows)
    return EvalData(
        ranking if limit is None else ranking.top(limit),
        widen(rows.labels, len(vocab)),
        None if training is None else widen(training.labels, len(vocab)),
        vocab,
        len(vocab) - widest.n_labels,
        report,
        n_filtered=n_filtered,
    )


def without_filtered(ranking: Ranking, rows: Dataset) -> tuple[Ranking, int]:
    """Return the ranking without the filtered pairs of the rows, and how many of its entries they were."""
    if rows.filter_pairs is None:
        return ranking, 0
    kept = ranking.without(rows.filter_pairs)
    return kept, int(ranking.labels.size - kept.labels.size)


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


def rank_truth(model: Path, source: Truth, limit: int | None, metrics: list[str] | None, jobs: int | None) -> EvalData:
    """Rank the rows of a dataset with a model and return what is measured."""
    import numpy as np

    from tagwood.metrics import LabelCounts, parse_metrics

    ranker = load_ranker(model, jobs)
    if ranker.tagger is not None:
        source = source._replace(reading=source.reading.for_model(ranker.tagger))
    rows, report = source.read(ranker.vocab, "add")
    n_labels, n_known = rows.n_labels, len(ranker.vocab)
    training: sparse.csr_array | LabelCounts
    if source.train is not None:
        known, _ = source.reading.read(source.train, source.format, vocab=rows.vocab, on_unknown="skip")
        training = widen(known.labels, n_labels)
    else:
        counts = np.pad(ranker.any.label_counts_, (0, n_labels - ranker.any.label_counts_.size))
        training = LabelCounts(counts, ranker.any.n_rows_)
    names = parse_metrics(metrics) if metrics else []
    k = limit or max([name.k for name in names if name.k is not None], default=5)
    # Labels that the filter removes make room for others.
    more = 0 if rows.filter_pairs is None else int(np.diff(rows.filter_pairs.indptr).max(initial=0))
    ranking, n_filtered = without_filtered(replace(ranker.rank(rows, k + more), n_labels=n_labels), rows)
    sets = None
    if any(name.k is None for name in names):
        sets, _ = without_filtered(replace(ranker.rank_sets(rows), n_labels=n_labels), rows)
    missed = int((rows.labels.indices >= n_known).sum())
    truth = widen(rows.labels, n_labels)
    return EvalData(ranking.top(k), truth, training, rows.vocab, n_labels - n_known, report, sets, n_filtered, missed)
