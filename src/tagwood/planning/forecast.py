"""`forecast_training`: what training will need, from figures of the data and the settings of a Tagger.

The terms follow the algorithm: n-grams are counted once per text; label features sum the rows of each label; building
a tree passes over the labels' features once per generation; a classifier sweeps over the rows of its node, more often
for frequent labels; memory holds features, label features and the model. The constants are measured by
``python -m benchmarks.planning``, one group for each list of terms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tagwood._check import check_threads
from tagwood.data.dataset import Dataset
from tagwood.errors import InputError
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.disentangled import Disentangled
from tagwood.models.linear_tree import LinearTree
from tagwood.planning.figures import DataFigures, LabelFigures, measure_figures
from tagwood.tagger import Tagger
from tagwood.tagger.fitting import CANDIDATES, WORTH_REFITTING

FILE = Path(__file__).with_name("coefficients.json")
_STATUS, _MEMORY = Path("/proc/self/status"), Path("/proc/meminfo")
_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Coefficients:
    """Constants by what they forecast."""

    # features, label_features, tree, rest: CPU seconds per unit of work of the stages of training
    features: tuple[float, ...]
    label_features: tuple[float, ...]
    tree: tuple[float, ...]
    rest: tuple[float, ...]
    memory: tuple[float, ...]  # bytes beyond those in use when the data have been read
    entries: tuple[float, ...]  # weights per feature of a label, and how fast they fall below the threshold
    size: tuple[float, ...]  # bytes of a model folder
    # latency, batch: seconds for one text alone, and CPU seconds for one of many
    latency: tuple[float, ...]
    batch: tuple[float, ...]
    probe: float  # CPU seconds of the fixed problem of `probe` on the machine of these constants
    bands: dict[str, float]  # quantity -> factor within which nine of ten measured datasets were
    measured: dict[str, str]  # machine, date, datasets used, and datasets held out to check

    def to_json(self) -> str:
        """Return the constants as JSON, with four figures each."""
        rounded = {
            name: [float(f"{one:.4g}") for one in value] if isinstance(value, list | tuple) else value
            for name, value in asdict(self).items()
        }
        return json.dumps(rounded, indent=2) + "\n"


@cache
def read_coefficients() -> Coefficients:
    """Return the constants that belong to this version."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
    return Coefficients(**values)


_MATCHED = 10  # nodes of a level that matcher-aware negatives add at most


class Level(NamedTuple):
    """Nodes of a level, outputs of each, pairs of row and node, and rows of an output."""

    nodes: float
    outputs: float
    visits: float
    rows_per_output: float


class TreeShape(NamedTuple):
    """Levels, root first; the last one holds the leaves. Nothing is trained to find it."""

    generations: int
    levels: tuple[Level, ...]

    @property
    def depth(self) -> int:
        """Depth of the leaves."""
        return len(self.levels) - 1


def tree_shape(labels: LabelFigures, model: LinearTree, together: tuple[float, float]) -> TreeShape:
    """Return the shape of one tree of a model.

    A balanced tree halves the labels until they fit into leaves, and joins generations of halves into wide nodes (see
    `tagwood.trees.balanced`). A row reaches a node if one of its labels is below. With labels placed at random, the
    visits would follow from the labels per row; similar labels are placed together, so only a share of the visits
    beyond the first remains: `together`, at the leaves and above them.
    """
    size = max(1, min(model.max_leaf_size, labels.n_labels))
    generations = int(np.ceil(np.log2(max(1.0, labels.n_labels / size))))
    most = max(1, model.arity.bit_length() - 1)
    n_levels = -(-generations // most)
    widths = [generations // n_levels + (level < generations % n_levels) for level in range(n_levels)]
    nodes = np.cumprod([1, *(2**width for width in widths)]).astype(float)
    levels = []
    for depth, count in enumerate(nodes.tolist()):
        leaf = depth == n_levels
        outputs = labels.n_labels / count if leaf else float(2 ** widths[depth])
        visits = _visits(labels, count, together[0] if leaf else together[1])
        if model.solver.negatives == "teacher+matcher" and depth:
            visits = max(visits, int(labels.row_counts.sum()) * min(count, _MATCHED))
        below = labels.used if leaf else nodes[depth + 1]
        levels.append(Level(count, outputs, visits, visits / max(1.0, below / count)))
    return TreeShape(generations, tuple(levels))


def _visits(labels: LabelFigures, nodes: float, share: float) -> float:
    """Return the pairs of row and node of a level, from how many rows have how many labels."""
    sizes, counts = labels.row_sizes, labels.row_counts
    reached = np.where(sizes > 0, nodes * (1 - (1 - 1 / nodes) ** sizes), 0.0)
    return float((counts * np.where(reached > 1, 1 + share * (reached - 1), reached)).sum())


TOGETHER = (0.62, 0.40)  # see `tree_shape`; measured on the sets that the constants were fitted to
_ROW_OVERHEAD = 15.0  # cost of a visit of a row beyond that of its features, in features
_WEIGHT_BYTES = {"int8": 1, "float16": 2, "float32": 4}
_OPENED = 5  # nodes of a level that beam search opens, about
_COUNT_BYTES = 48  # of an n-gram while n-grams are counted: two tables become a third
_PROCESS_BYTES = 90e6  # Python with everything that training imports


class Value(NamedTuple):
    """A forecast, and the factor within which nine of ten measured datasets were."""

    expected: float
    band: float

    @property
    def low(self) -> float:
        """Lower end of the band."""
        return self.expected / self.band

    @property
    def high(self) -> float:
        """Upper end of the band."""
        return self.expected * self.band


@dataclass(frozen=True)
class Forecast:
    """What training will need."""

    peak_bytes: Value  # peak memory of the process, including the data that it holds already
    cpu_seconds: Value  # CPU time of all threads, from the texts in memory to the stored model
    model_bytes: Value  # size of the model folder
    # depth, n_nodes: size of a label tree
    depth: int
    n_nodes: int
    n_features: int
    latency_seconds: Value  # time to tag one text from Python
    batch_seconds: Value  # CPU time to tag one text of a large batch

    def scaled(self, factor: float) -> Forecast:
        """Return the forecast for a machine that takes `factor` times the CPU time."""
        times = ("cpu_seconds", "latency_seconds", "batch_seconds")
        changed = {name: getattr(self, name)._replace(expected=factor * getattr(self, name).expected) for name in times}
        return replace(self, **changed)


class WorkTerms(NamedTuple):
    """The work behind each group of constants, in their order."""

    features: tuple[float, ...]
    label_features: tuple[float, ...]
    tree: tuple[float, ...]
    rest: tuple[float, ...]
    label_work: tuple[float, float]
    encoder_bytes: float
    tagging: tuple[float, ...]


def forecast_training(figures: DataFigures, tagger: Tagger, *, used_bytes: float) -> Forecast:
    """Forecast the training of an unfitted Tagger with a `TfidfEncoder` and a `LinearTree`, or the defaults.

    `figures` are those of the Tagger's encoder, `used_bytes` is the memory of the process that holds the data now.
    """
    known = read_coefficients()
    model = parts_of(tagger)[1]
    shape = tree_shape(figures.labels, model, TOGETHER)
    terms = work_terms(figures, tagger, shape)
    n_entries = entries(known.entries, terms.label_work)
    weights = n_entries * model.n_trees
    stages = ("features", "label_features", "tree")
    one_fit = sum(_dot(getattr(known, stage), getattr(terms, stage)) for stage in stages)
    cpu = n_fits(figures, tagger) * one_fit + _dot(known.rest, terms.rest)
    counting = known.memory[0] + _COUNT_BYTES * figures.texts.distinct
    peak = used_bytes + max(_dot(known.memory, memory_terms(figures, weights)), counting)
    size = _dot(known.size, size_terms(weights, model, terms.encoder_bytes))
    bands = known.bands
    return Forecast(
        Value(max(peak, _PROCESS_BYTES), bands["memory"]),
        Value(cpu, bands["cpu"]),
        Value(size, bands["size"]),
        shape.depth,
        round(sum(level.nodes for level in shape.levels)),
        round(figures.texts.n_features),
        Value(_dot(known.latency, terms.tagging), bands["latency"]),
        Value(_dot(known.batch, terms.tagging), bands["batch"]),
    )


def figures_for(data: Dataset, tagger: Tagger, *, share: float = 1.0) -> DataFigures:
    """Measure a dataset for the encoder of a Tagger that will be trained on `share` of its rows."""
    encoder, model = parts_of(tagger)
    return measure_figures(data, encoder, share=share, threads=check_threads(model.threads))


def has_forecast(tagger: Tagger) -> bool:
    """Whether there is a forecast for an unfitted Tagger: for TF-IDF features and a linear tree."""
    kinds = TfidfEncoder | None, LinearTree | Disentangled | None
    return isinstance(tagger.encoder, kinds[0]) and isinstance(tagger.model, kinds[1])


def parts_of(tagger: Tagger) -> tuple[TfidfEncoder, LinearTree]:
    """Return encoder and model of a Tagger that a forecast is made for."""
    encoder = TfidfEncoder() if tagger.encoder is None else tagger.encoder
    model = LinearTree() if tagger.model is None else tagger.model
    if isinstance(model, Disentangled):
        model = model.base_tree()
    if not isinstance(encoder, TfidfEncoder) or not isinstance(model, LinearTree):
        raise InputError(
            "a forecast is made for TF-IDF features and a linear tree",
            given=f"{type(encoder).__name__} and {type(model).__name__}",
        )
    return encoder, model


def n_fits(figures: DataFigures, tagger: Tagger) -> float:
    """Return how often the rows are trained on: twice where held-out rows are added again, the first time fewer."""
    kept = min(round(tagger.sets.holdout * figures.rows), tagger.sets.largest)
    if figures.grouped or kept < tagger.sets.smallest:
        return 1.0
    first = 1 - kept / figures.rows
    return first + 1 if tagger.sets.refit and kept > WORTH_REFITTING * figures.rows else first


def work_terms(figures: DataFigures, tagger: Tagger, shape: TreeShape) -> WorkTerms:
    """Return the terms of a forecast; those of stages are for one fit."""
    model = parts_of(tagger)[1]
    texts, labels = figures.texts, figures.labels
    per_row = texts.per_row + _ROW_OVERHEAD
    *inner, leaves = shape.levels
    above = sum(level.visits * level.outputs * np.log1p(level.rows_per_output) for level in inner)
    held = min(tagger.sets.holdout * figures.rows, tagger.sets.largest)
    ranked = held + 0.1 * figures.rows
    opened = sum(min(level.nodes, _OPENED) for level in shape.levels)
    return WorkTerms(
        features=(figures.rows * texts.tokens, texts.n_features),
        label_features=(labels.pairs * per_row,),
        tree=(
            labels.tree_features * shape.generations * model.n_trees,
            leaves.visits * leaves.outputs * per_row * labels.log_rows * model.n_trees,
            float(above) * per_row * model.n_trees,
        ),
        rest=(1.0, ranked * (texts.tokens + CANDIDATES)),
        label_work=(labels.features, model.solver.threshold * texts.per_row**0.5),
        encoder_bytes=encoder_bytes(tagger, texts.n_features),
        tagging=(model.n_trees, texts.tokens, texts.per_row * opened * model.n_trees),
    )


def entries(constants: Sequence[float], label_work: tuple[float, float]) -> float:
    """Return the stored weights of a tree: those of label features that stay above the threshold.

    A row of norm 1 with z features has values of about 1/sqrt(z), and weights are sums of them.
    """
    features, relative_threshold = label_work
    return float(constants[0] * features * np.exp(-constants[1] * relative_threshold))


def memory_terms(figures: DataFigures, weights: float) -> tuple[float, ...]:
    """Return the bytes of what training holds: what is always there, features, label features, weights."""
    return 1.0, 8 * figures.rows * figures.texts.per_row, 8 * figures.labels.tree_features, 2 * weights


def size_terms(weights: float, model: LinearTree, encoder: float) -> tuple[float, ...]:
    """Return the bytes of the parts of a model folder: what is always there, weights, the encoder."""
    return 1.0, weights * (3 + _WEIGHT_BYTES[model.solver.weights]), encoder


def encoder_bytes(tagger: Tagger, n_features: float) -> float:
    """Return the bytes of vocabulary, idf and spelling."""
    encoder = parts_of(tagger)[0]
    if encoder.hash_bits:
        return float(4 << encoder.hash_bits)
    slots = float(8 << int(2 * max(1.0, n_features)).bit_length())
    return slots + 24 * n_features


def _dot(constants: Sequence[float], terms: Sequence[float]) -> float:
    return float(np.dot(constants, terms))


def used_bytes() -> float:
    """Return the resident memory of this process; its peak where the system tells no more."""
    found = _kilobytes(_STATUS, "VmRSS")
    if found is not None:
        return found
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


def largest_bytes() -> float | None:
    """Return how large this process can become within free memory and the limits of its container; None if unknown."""
    free = _kilobytes(_MEMORY, "MemAvailable")
    limits = [] if free is None else [free + used_bytes()]
    for path in _GROUPS:
        try:
            limits.append(float(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(limits, default=None)


def _kilobytes(path: Path, field: str) -> float | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith(f"{field}:")), None)
    return None if found is None else 1024 * float(found)
