"""`tagwood train`: from a file of texts and labels to a model folder. In: a dataset, a recipe. Out: a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.cli.reading import DataArgument, Reading, read_rows, say_report, say_skipped, with_reading
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.data.feedback import Feedback
    from tagwood.models.tasks import Runner
    from tagwood.recipe import Recipe
    from tagwood.tagger import Tagger

_SHOWN_SECONDS = 2.0  # CPU time from which the forecast is shown; shorter runs finish before it is read


@with_reading
def train(
    data: DataArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-O", help="Model folder to write; by default library-model for library.csv, in this folder."
        ),
    ] = None,
    recipe: common.RecipeOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Kind of model: linear-tree (default), softmax-tree, neighbours, centroids, name-matcher; "
            "with tagwood[neural] also prime, prime-lite, "
            "dual-encoder, ngame, otseq2set, seq2seq, mlc2seq, sgm; or a kind that another package registers."
        ),
    ] = None,
    quality: Annotated[
        str | None,
        typer.Option(
            help="fast: the model alone; balanced (default): also similar texts, label centroids and label names; "
            "best: also more trees, in several times the time. Settings of a model or tree imply fast."
        ),
    ] = None,
    settings: common.SetOption = None,
    tree: Annotated[
        str | None,
        typer.Option(
            help="Builder of the label tree: interpolated (default), auto (chooses lambda by trials, see "
            "tagwood tune --tree), or one that another package registers."
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(help="Train once more on all rows after measuring on held-out rows."),
    ] = True,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    holdout_by: Annotated[
        str | None,
        typer.Option(
            help="What is held out to measure: single rows, or blocks of consecutive ones, if rows that stand together "
            "are more similar than new texts will be to training texts.",
            metavar="rows|blocks",
        ),
    ] = None,
    groups: common.GroupsOption = None,
    group_labels: common.GroupLabelsOption = None,
    corrections: Annotated[
        Path | None, typer.Option(help="Corrected labels of grouped rows, as stored by tagwood serve.")
    ] = None,
    with_feedback: Annotated[
        Path | None,
        typer.Option(
            "--with-feedback", help="Also train on decisions of people, as stored by tagwood serve; see tagwood learn."
        ),
    ] = None,
    even_if_worse: Annotated[
        bool,
        typer.Option("--even-if-worse", help="Replace a model also if the new one is worse on held-out feedback."),
    ] = False,
    data_format: common.FormatOption = None,
    docs_limit: common.DocsLimitOption = None,
    jobs: common.JobsOption = None,
    max_ram: Annotated[
        str | None,
        typer.Option(
            help="Memory limit, such as 4GB; the free memory by default. With --work-dir, data that need more are "
            "trained from files there."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep finished parts of the training until the model is written; the same command started again "
            "computes only what is missing.",
        ),
    ] = False,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for finished parts, and for texts and features that exceed --max-ram; on storage that all "
            "machines share. Implies --resume."
        ),
    ] = None,
    cluster: common.ClusterOption = None,
    time: Annotated[
        str | None, typer.Option(help="Time limit of training, such as 10m: sources that take longer are left out.")
    ] = None,
    max_size: Annotated[str | None, typer.Option(help="Size limit of the model folder, such as 50MB.")] = None,
    max_latency: Annotated[str | None, typer.Option(help="CPU time limit for tagging one text, such as 2ms.")] = None,
    notes: Annotated[str | None, typer.Option(help="Notes to store with the model.")] = None,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Replace an existing model, and train even if memory may not suffice."),
    ] = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Train a model on texts, or features, and their labels.

    Training that would not fit into memory according to the forecast (see tagwood plan) is refused before it starts;
    with --max-ram and --work-dir, texts and features are then read from files, which gives the same model.
    With --time, --max-size or --max-latency, a lower quality than asked for is trained if the forecast exceeds a limit.
    The model folder appears when it is complete, or not at all.
    """
    from tagwood.storage.publish import check_replaceable
    from tagwood.storage.shards import ShardStore

    named = {"model.kind": model, "tree.tree": tree, "model.quality": quality}
    named |= {"sets.refit": None if refit else "false", "sets.holdout_by": holdout_by}
    named |= {"budget.time": time, "budget.size": max_size, "budget.latency": max_latency}
    changes = [f"{key}={value}" for key, value in named.items() if value is not None]
    chosen = common.choose_recipe(recipe, [*(settings or []), *changes], jobs)
    tagger = chosen.tagger()
    output = model_folder(data[0]) if output is None else output
    check_replaceable(output, overwrite=force)
    allowed = None if max_ram is None else _memory_limit(max_ram)
    streams = allowed is not None and work_dir is not None
    streams &= all(one is None for one in (groups, group_labels, corrections, with_feedback))
    files = work_dir if streams else None
    rows, report = read_rows(data, reading, data_format, vocab, on_unknown, docs_limit, groups, group_labels, files)
    say_report(report)
    say_skipped(reading)
    if corrections is not None:
        rows = _with_corrections(rows, corrections)
    if rows.texts is None:
        if files is not None:
            remove_files(files)
        facts = train_features(rows, tagger, output, quality, notes, force=force)
        common.print_json(facts | {"reading": report.to_dict()}) if json else say_features(facts)
        return
    decided = None if with_feedback is None else FeedbackForTraining.read(with_feedback, rows, output)
    if decided is not None:
        rows = decided.rows
    if files is not None and allowed is not None:
        rows, chosen = choose_way(rows, chosen, allowed, files, force=force)
    chosen = within_budget(rows, chosen)
    tagger = chosen.tagger()
    from_files = is_in_files(rows)
    if not from_files:
        check_memory(rows, chosen, allowed, force=force)
    parts = work_dir or output.with_name(f"{output.name}.parts") if resume or work_dir is not None else None
    with (
        training_runner(cluster, parts, jobs, together=from_files) as runner,
        common.stages("Training") as advance,
    ):
        tagger.fit(rows, progress=advance, runner=runner)
    if decided is not None:
        decided.finish(tagger, output, even_if_worse=even_if_worse)
    folder = tagger.save(output, notes=notes, overwrite=force)
    if parts is not None:
        remove_files(parts)
        ShardStore(parts).remove()
    facts = summarise(tagger, folder)
    if json:
        common.print_json(facts | {"reading": report.to_dict()})
    else:
        print_summary(tagger, facts)


def model_folder(data: Path) -> Path:
    """Return the folder of a model whose name is not given: that of the data, without its endings, and -model.

    Examples
    --------
    >>> model_folder(Path("catalogue/library.jsonl.gz"))
    PosixPath('library-model')
    """
    name = data.resolve().name
    return Path(f"{name.split('.', 1)[0] or name}-model")


@contextmanager
def training_runner(
    cluster: str | None, parts: Path | None, jobs: int | None, *, together: bool = False
) -> Iterator[Runner | None]:
    """Yield what trains models in parts: on a cluster, or here with finished parts in a folder; None for neither.

    `together`: here, one part at a time.
    """
    from tagwood.storage.shards import ShardStore

    store = None if parts is None else ShardStore(parts)
    if store is not None and len(store):
        common.say(f"{parts}: {len(store):,} finished parts are used where they fit")
    if cluster is None:
        from tagwood.models.tasks import LocalRunner

        yield None if store is None else LocalRunner(store, jobs, together=together)
        return
    from tagwood.scale import RayRunner, connect

    with connect(cluster, jobs):
        yield RayRunner(store)


def train_features(
    rows: Dataset, tagger: Tagger, output: Path, quality: str | None, notes: str | None, *, force: bool
) -> dict[str, Any]:
    """Train the model of the recipe on features and save it; return the facts."""
    from tagwood.storage import save
    from tagwood.tagger.features import FeatureTagger

    if quality not in (None, "fast"):
        raise InputError(f"quality {quality} needs texts", given="features only", hint="Leave --quality out.")
    with common.stages("Training") as advance:
        model = FeatureTagger(tagger.model).fit(rows, progress=advance)
    sample = None if rows.features is None else rows.features[:10]
    folder = save(model, output, notes=notes, golden=sample, fingerprint=rows.fingerprint(), overwrite=force)
    size = sum(file.stat().st_size for file in folder.iterdir())
    features = 0 if rows.features is None else int(rows.features.shape[1])
    facts = {"model": str(folder), "rows": rows.n_rows, "labels": rows.n_labels, "features": features}
    return facts | {"seconds": model.training_seconds_, "bytes": size}


def say_features(facts: dict[str, Any]) -> None:
    """Print what was trained on features."""
    common.say(
        f"{facts['model']}: {facts['rows']:,} rows, {facts['labels']:,} labels, {facts['features']:,} features, "
        f"{facts['seconds']:.1f} s, {common.show_bytes(facts['bytes'])}"
    )
    common.say("Nothing was measured; to measure the model: tagwood eval MODEL DATA, with data it has not seen.")


class FeedbackForTraining(NamedTuple):
    """Training rows with feedback; where a model is replaced, a part of the feedback is held out to compare the two."""

    rows: Dataset
    learned: Feedback
    test: Feedback | None

    @classmethod
    def read(cls, path: Path, rows: Dataset, output: Path) -> FeedbackForTraining:
        """Read feedback and add it to the training rows."""
        from tagwood.cli.learn import read_for_training
        from tagwood.data.feedback import with_feedback
        from tagwood.tagger.learning import FEWEST_HELD_OUT

        found = read_for_training(path, rows.vocab)
        held = found.held_out()
        compares = output.exists() and held.sum() >= FEWEST_HELD_OUT
        used = found.rows(~held) if compares else found
        return cls(with_feedback(rows, used), used, found.rows(held) if compares else None)

    def finish(self, tagger: Tagger, output: Path, *, even_if_worse: bool) -> None:
        """Note what was learned; raise `InputError` if the model is worse than the one that it would replace."""
        from tagwood.cli.learn import judge
        from tagwood.ranking import Ranking
        from tagwood.tagger.learning import TRAINED, LearnedRows, before_after, learned_rows

        used = self.learned
        rows = learned_rows(used.keys, used.ids, [TRAINED] * len(used), used.texts, used.labels, used.rejected)
        tagger.learned_ = LearnedRows().add(rows)
        if self.test is None:
            return
        before = common.load_tagger(output).forgetting(self.test.texts)
        vocab = tagger.vocab_
        known = [
            [(label, tag.score) for tag in tags if (label := vocab.find(tag.uri or tag.name)) is not None]
            for tags in before.tag(self.test.texts, 5)
        ]
        old = Ranking.from_lists(known, len(vocab))
        found = before_after(self.test.labels, old, tagger.rank(self.test.texts, 5))
        judge(found, force=even_if_worse, option="--even-if-worse")


def print_summary(tagger: Tagger, facts: dict[str, Any]) -> None:
    """Print what was trained, what each member brings, and the measures of held-out rows."""
    common.say(
        f"{facts['model']}: {facts['rows']:,} rows, {facts['labels']:,} labels, "
        f"{facts['seconds']:.1f} s, {common.show_bytes(facts['bytes'])}"
    )
    if tagger.simpler_because_:
        common.say(f"Trained with quality fast: {tagger.simpler_because_}.")
    for line in common.member_lines(tagger):
        common.say(line)
    names = [one.name for one in tagger.members()]
    if names and tagger.effective_quality == "best" and "PrototypeModel" not in names:
        common.say("PRIME is not a member: it needs tagwood[neural], label names, and texts whose words MiniLM knows.")
    if tagger.measures_ is None:
        common.say("Nothing was measured; to measure the model: tagwood eval MODEL DATA, with data it has not seen.")
    else:
        common.print_data(one_line(tagger))


def within_budget(rows: Dataset, recipe: Recipe) -> Recipe:
    """Return a recipe with the highest quality that does not surely exceed its budget.

    While it is trained, costs are measured and sources left out. `InputError` says what even one tree would need.
    """
    from tagwood.models.ensemble import Budget
    from tagwood.planning import Limits
    from tagwood.planning.forecast import has_forecast
    from tagwood.planning.qualities import predictor
    from tagwood.tagger.quality import QUALITIES

    tagger = recipe.tagger()
    budget = tagger.budget
    if budget == Budget() or not has_forecast(tagger):
        return recipe
    limits = Limits(None, budget.latency_seconds, budget.bytes, budget.seconds)
    predict, said = predictor(rows), ""
    for quality in reversed(QUALITIES[: QUALITIES.index(tagger.effective_quality) + 1]):
        changed = recipe.override([f"model.quality={quality}"])
        exceeded = limits.exceeded(predict(changed), surely=True)
        if not exceeded:
            if quality != tagger.effective_quality:
                common.say(f"Quality {quality}, because {tagger.effective_quality} would exceed a limit: {said}.")
            return changed
        said = "; ".join(exceeded)
    raise InputError(
        "the limits must allow at least one tree",
        given=f"a forecast of {said}",
        hint="Allow more; or tagwood plan DATA with the same limits finds settings of a smaller tree.",
    )


def check_memory(rows: Dataset, recipe: Recipe, allowed: float | None, *, force: bool) -> None:
    """Show what training will need; raise `InputError` if that is more memory than is free or allowed (bytes).

    Only linear trees on TF-IDF features, and what answers together with them, have a forecast; other models are
    trained without one.
    """
    from tagwood._check import show_amount, show_time
    from tagwood.planning.forecast import has_forecast, largest_bytes
    from tagwood.planning.qualities import predictor

    if not has_forecast(recipe.tagger()):
        return
    found = predictor(rows)(recipe)
    peak = found.peak_bytes.expected
    if found.cpu_seconds.expected >= _SHOWN_SECONDS:
        common.say(
            f"Forecast: {show_amount(peak)} of memory, {show_time(found.cpu_seconds.expected)} "
            f"of CPU time, a model of {show_amount(found.model_bytes.expected)}."
        )
    for limit, whose in ((allowed, "--max-ram allows"), (largest_bytes(), "this machine has free")):
        if limit is not None and peak > limit and not force:
            raise InputError(
                f"training must fit into the {show_amount(limit)} that {whose}",
                given=f"about {show_amount(peak)}",
                hint=f"tagwood plan DATA --max-ram {max(1, limit / 1e6):.0f}MB finds settings; --force trains anyway.",
            )


def is_in_files(rows: Dataset) -> bool:
    """Whether the texts of rows, and so their features, are in files."""
    from tagwood.data.stored_texts import StoredTexts

    return isinstance(rows.texts, StoredTexts)


def choose_way(rows: Dataset, recipe: Recipe, limit: float, files: Path, *, force: bool) -> tuple[Dataset, Recipe]:
    """Return rows and recipe for training within a memory limit (bytes): in memory, or from files where it must be.

    `rows` have their texts in files. Only quality fast is trained from files: `InputError` for another one that the
    recipe names, for a limit that is too small, and for a disk without enough free space.
    """
    import dataclasses
    import shutil

    from tagwood._check import check_threads, show_amount, show_time
    from tagwood.cli.plan import disk_way, text_bytes
    from tagwood.data.stored_texts import StoredTexts, WorkFolder
    from tagwood.planning.forecast import has_forecast, parts_of, used_bytes
    from tagwood.planning.qualities import predictor

    assert isinstance(rows.texts, StoredTexts)
    tagger = recipe.tagger()
    in_memory = None
    if has_forecast(tagger):
        in_memory = predictor(rows, used_bytes() + text_bytes(rows))(recipe).peak_bytes.expected
    if in_memory is None or in_memory <= limit:
        return dataclasses.replace(rows, texts=list(rows.texts)), recipe
    fast, needs = disk_way(rows, recipe, used_bytes(), in_memory)
    if needs.least_bytes > limit and not force:
        raise InputError(
            f"--max-ram must be at least {show_amount(needs.least_bytes)} to train these data from files",
            given=show_amount(limit),
            hint="Allow more; or fewer features (--set features.max_features=N) or rows (--docs-limit).",
        )
    free = shutil.disk_usage(files).free
    if needs.disk_bytes > free and not force:
        raise InputError(
            f"--work-dir must have about {show_amount(needs.disk_bytes)} of free space",
            given=f"{show_amount(free)} in {files}",
            hint="Choose another disk, or free some space.",
        )
    common.say(
        f"In memory, training would need about {show_amount(in_memory)}: quality fast is trained from files in {files} "
        f"({show_amount(needs.disk_bytes)}, about {show_time(needs.cpu_seconds)} of CPU time)."
    )
    threads = check_threads(parts_of(fast.tagger())[1].threads)
    work = WorkFolder(files, needs.work_bytes(limit, threads))
    return dataclasses.replace(rows, texts=rows.texts.with_work(work)), fast


def remove_files(folder: Path) -> None:
    """Remove the texts and features that a training from files has written."""
    from tagwood.data.stored_texts import FILE
    from tagwood.features.stored import remove_rows

    remove_rows(folder)
    (folder / FILE).unlink(missing_ok=True)


def summarise(tagger: Tagger, folder: Path) -> dict[str, Any]:
    """Return the facts of a training run."""
    return {
        "model": str(folder),
        "rows": tagger.n_rows_,
        "labels": len(tagger.vocab_),
        "seconds": tagger.training_seconds_,
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "quality": tagger.effective_quality,
        "members": [one._asdict() for one in tagger.members()],
        "calibrated": tagger.probabilities_ is not None,
        "test_rows": 0 if tagger.measures_ is None else tagger.measures_.n_rows,
        "metrics": None if tagger.measures_ is None else tagger.measures_.values,
    }


def one_line(tagger: Tagger) -> str:
    """Return the measures of held-out rows in one line, in percent."""
    assert tagger.measures_ is not None
    values = ", ".join(f"{name} {100 * value:.1f}" for name, value in tagger.measures_.values.items())
    return f"Measured on {tagger.measures_.n_rows:,} held-out rows: {values} %"


def _memory_limit(text: str) -> float:
    from tagwood._check import BYTES, parse_quantity

    return parse_quantity(text, "--max-ram", BYTES, "mb")


def _with_corrections(rows: Dataset, path: Path) -> Dataset:
    """Put corrected labels into grouped rows, and report how many found their row."""
    from tagwood.groups.labels import apply_corrections, read_corrections

    found = read_corrections(path)
    corrected, used = apply_corrections(rows, found)
    common.say(f"{path}: {used:,} of {len(found):,} corrections used")
    return corrected
