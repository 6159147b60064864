"""What a fitted Tagger keeps beside encoder and model, and the stored form of all of it.

In: training data, settings and fitted parts. Out: sampled training texts and groups, a `State`, and the arguments to
rebuild a Tagger. `FittedTagger` lists the attributes that explanations, senses, label cards and the overview read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_stored_finite, is_pointer
from tagwood._lazy import sparse
from tagwood._sparse import normalize_rows
from tagwood.data.dataset import Dataset
from tagwood.data.vocab import DETAILS, LabelVocab, StringTable
from tagwood.errors import InputError
from tagwood.features.base import Encoder
from tagwood.groups.impute import Imputed
from tagwood.models.base import LabelModel
from tagwood.models.ensemble import Budget, Ensemble, MemberReport
from tagwood.ranking import Ranking
from tagwood.storage import State, restore
from tagwood.tagger.drift import TrainingFigures
from tagwood.tagger.fitting import Measures, Probabilities, SetRules
from tagwood.tagger.group_learning import GroupRule
from tagwood.tagger.learning import LearnedRows
from tagwood.tagger.new_labels import NameCurve, NewLabels, Usage
from tagwood.tagger.search import Labels, similarity_encoder
from tagwood.tagger.updating import TaggerUpdate

_SETTINGS = {"groups": GroupRule, "sets": SetRules}
_EXAMPLE_CHARACTERS, _GROUP_CHARACTERS = 400, 4000  # kept of a text


class FittedTagger(Protocol):
    """The attributes of a fitted `Tagger` that other modules of this package read."""

    encoder_: Encoder
    model_: LabelModel
    vocab_: LabelVocab
    label_counts_: NDArray[np.int64]
    n_rows_: int
    fields_: tuple[str, ...]
    probabilities_: Probabilities | None
    measures_: Measures | None
    simpler_because_: str
    history_: list[TaggerUpdate]
    new_labels_: NewLabels | None
    examples_: ExampleTexts | None
    learned_: LearnedRows

    @property
    def effective_quality(self) -> str:
        """The quality in force."""
        ...

    def members(self) -> list[MemberReport]:
        """Return what each member of an `Ensemble` brings."""
        ...

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: Labels | None = None,
        exclude: Labels | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text."""
        ...


@dataclass(frozen=True)
class LabelBrief:
    """A label in a list: the number it is called by, name, URI and number of training rows."""

    id: int
    name: str
    uri: str | None
    rows: int


def brief_label(tagger: FittedTagger, label: int, language: str | None = None) -> LabelBrief:
    """Return a label as it is shown in lists."""
    vocab = tagger.vocab_
    return LabelBrief(
        vocab.number(label), vocab.name(label, language), vocab.uri(label), int(tagger.label_counts_[label])
    )


@dataclass(frozen=True)
class LabelledText:
    """A training text with the names of its labels."""

    text: str
    labels: tuple[str, ...]


class SimilarText(NamedTuple):
    """A kept training text, its label ids and its cosine with the query."""

    text: str
    labels: list[int]
    similarity: float


@dataclass(frozen=True, eq=False)
class ExampleTexts:
    """A sample of the training texts with their label ids, cut to 400 characters to keep the model folder small.

    `rows` are their numbers in the training data, rising.
    """

    rows: NDArray[np.int64]
    texts: StringTable
    indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    encoder: Encoder

    @classmethod
    def draw(cls, data: Dataset, n: int, seed: int, encoder: Encoder) -> ExampleTexts:
        """Draw `n` rows: first one for each of as many labels as possible, then others at random."""
        random = np.random.default_rng(seed)
        order = random.permutation(data.n_rows)
        shuffled = data.labels[order]
        first = np.unique(np.unique(shuffled.indices, return_index=True)[1])
        rows = np.unique(np.searchsorted(shuffled.indptr, first, side="right") - 1)
        random.shuffle(rows)
        others = np.setdiff1d(np.arange(data.n_rows), rows)
        chosen = np.sort(order[np.concatenate([rows, others])[:n]])
        sample = data.rows(chosen)
        return cls(
            chosen.astype(np.int64),
            StringTable.from_strings(text[:_EXAMPLE_CHARACTERS] for text in sample.texts or ()),
            sample.labels.indptr.astype(np.int64),
            sample.labels.indices.astype(np.int32),
            encoder,
        )

    @cached_property
    def _features(self) -> Any:
        return sparse.csr_array(self.encoder.transform(list(self.texts)))

    def similar(self, text: str, label: int | None, n: int) -> list[SimilarText]:
        """Return the `n` texts most similar to `text`, among those with `label` if it is given."""
        query = normalize_rows(sparse.csr_array(self.encoder.transform([text])))
        cosines = (self._features @ query.T).toarray().ravel()
        if label is not None:
            has = np.zeros(cosines.size, dtype=np.bool_)
            rows = np.repeat(np.arange(cosines.size), np.diff(self.indptr))
            has[rows[self.labels == label]] = True
            cosines[~has] = -1.0
        best = [int(row) for row in np.argsort(-cosines, kind="stable")[:n] if cosines[row] > 0]
        return [SimilarText(self.texts[row], self.labels_of(row), float(cosines[row])) for row in best]

    def place(self, row: int) -> int | None:
        """Return at which place a row of the training data is kept; None if it is not."""
        place = int(np.searchsorted(self.rows, row))
        return place if place < self.rows.size and self.rows[place] == row else None

    def labels_of(self, place: int) -> list[int]:
        """Return the label ids of a kept text."""
        ids: list[int] = self.labels[self.indptr[place] : self.indptr[place + 1]].tolist()
        return ids

    def with_label(self, label: int, vocab: LabelVocab, language: str | None = None) -> list[LabelledText]:
        """Return the texts that have a label."""
        rows = np.unique(np.searchsorted(self.indptr, np.flatnonzero(self.labels == label), side="right") - 1)
        return [
            LabelledText(
                self.texts[int(row)],
                tuple(vocab.name(one, language) for one in self.labels_of(int(row))),
            )
            for row in rows
        ]

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "blob": np.asarray(self.texts.blob),
            "offsets": np.asarray(self.texts.offsets),
        }
        arrays["rows"] = self.rows
        return State("ExampleTexts", arrays={**arrays, "indptr": self.indptr, "labels": self.labels})

    @classmethod
    def from_state(cls, state: State, encoder: Encoder, n_labels: int) -> ExampleTexts:
        """Rebuild from the stored form and the encoder of the same model."""
        texts = StringTable(state.array("blob", np.uint8, (None,)), state.array("offsets", np.int64, (None,)))
        indptr = state.array("indptr", np.int64, (len(texts) + 1,))
        rows = state.array("rows", np.int64, (len(texts),))
        labels = state.array("labels", np.int32, (None,))
        _check_kept(indptr, labels, n_labels)
        return cls(rows, texts, indptr, labels, encoder)


@dataclass(frozen=True, eq=False)
class GroupSamples:
    """Some training groups with the labels imputed to each row, kept for manual review.

    Whole groups are kept, with no more texts in total than `Tagger.keep_texts`.

    Parameters
    ----------
    names
        Name of each group.
    group_ptr
        (n_groups + 1,) the samples of group g are ``group_ptr[g]:group_ptr[g + 1]``.
    rows
        (n_samples,) row of each sample in the training data.
    texts
        Text of each sample, cut to 4,000 characters.
    label_ptr, labels, similarity, confidence
        Imputed labels of each sample, how close the sample is to each, and its share of the label: 1 where no other
        sample of the group is nearly as close.
    n_in_training
        Number of groups that the model was trained from.
    """

    names: StringTable
    group_ptr: NDArray[np.int64]
    rows: NDArray[np.int64]
    texts: StringTable
    label_ptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    similarity: NDArray[np.float32]
    confidence: NDArray[np.float32]
    n_in_training: int

    @classmethod
    def draw(cls, data: Dataset, found: Imputed, n: int, seed: int) -> GroupSamples:
        """Draw groups of two or more samples at random, up to `n` samples in total.

        Examples
        --------
        >>> from tagwood.data.vocab import LabelVocab
        >>> data = Dataset([[0], [1], []], LabelVocab.numbered(2), texts=["a", "b", "c"], groups=["x", "x", ""])
        >>> one = sparse.csr_array(np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32))
        >>> kept = GroupSamples.draw(data, Imputed(one, one, one / 2), 10, 0)
        >>> list(kept.names), list(kept.texts), kept.rows.tolist(), kept.labels.tolist(), kept.confidence.tolist()
        (['x'], ['a', 'b'], [0, 1], [0, 1], [0.5, 0.5])
        """
        members: dict[str, list[int]] = {}
        for row, name in enumerate(data.groups or ()):
            if name:
                members.setdefault(name, []).append(row)
        names = [name for name, rows in members.items() if len(rows) > 1]
        order = np.random.default_rng(seed).permutation(len(names))
        sizes = np.cumsum([len(members[names[place]]) for place in order])
        chosen = sorted(int(place) for place in order[: np.searchsorted(sizes, n, side="right")])
        rows = np.array([row for place in chosen for row in members[names[place]]], dtype=np.int64)
        ends = np.cumsum([0, *(len(members[names[place]]) for place in chosen)]).astype(np.int64)
        labels, similarity, share = (
            sparse.csr_array(part[rows]) for part in (found.labels, found.similarity, found.weights)
        )
        texts = data.texts or ()
        return cls(
            StringTable.from_strings(names[place] for place in chosen),
            ends,
            rows,
            StringTable.from_strings(texts[row][:_GROUP_CHARACTERS] for row in rows),
            labels.indptr.astype(np.int64),
            labels.indices.astype(np.int32),
            similarity.data.astype(np.float32),
            share.data.astype(np.float32),
            len(members),
        )

    def __len__(self) -> int:
        """Return the number of kept groups."""
        return len(self.names)

    def samples(self, group: int) -> range:
        """Return the numbers of a group's samples."""
        return range(int(self.group_ptr[group]), int(self.group_ptr[group + 1]))

    def labels_of(self, sample: int) -> slice:
        """Return the slice of `labels` that belongs to a sample."""
        return slice(int(self.label_ptr[sample]), int(self.label_ptr[sample + 1]))

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "names_blob": np.asarray(self.names.blob),
            "names_offsets": np.asarray(self.names.offsets),
            "texts_blob": np.asarray(self.texts.blob),
            "texts_offsets": np.asarray(self.texts.offsets),
        }
        for name in ("group_ptr", "rows", "label_ptr", "labels", "similarity", "confidence"):
            arrays[name] = getattr(self, name)
        return State("GroupSamples", params={"n_in_training": self.n_in_training}, arrays=arrays)

    @classmethod
    def from_state(cls, state: State, n_labels: int) -> GroupSamples:
        """Rebuild from the stored form."""
        group_ptr = state.array("group_ptr", np.int64, (None,))
        rows = state.array("rows", np.int64, (None,))
        labels = state.array("labels", np.int32, (None,))
        names = state.array("names_offsets", np.int64, (group_ptr.size,))
        texts = state.array("texts_offsets", np.int64, (rows.size + 1,))
        label_ptr = state.array("label_ptr", np.int64, (rows.size + 1,))
        _check_kept(label_ptr, labels, n_labels)
        if not is_pointer(group_ptr, group_ptr.size - 1, rows.size):
            raise InputError("the groups of stored samples must fit together")
        numbers = {name: state.array(name, np.float32, (labels.size,)) for name in ("similarity", "confidence")}
        for name, values in numbers.items():
            check_stored_finite(values, f"the {name} of stored samples")
        return cls(
            StringTable(state.array("names_blob", np.uint8, (None,)), names),
            group_ptr,
            rows,
            StringTable(state.array("texts_blob", np.uint8, (None,)), texts),
            label_ptr,
            labels,
            numbers["similarity"],
            numbers["confidence"],
            state.param("n_in_training", int),
        )


def _checked_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    if np.any(counts < 0):
        raise InputError("stored counts of labels must not be negative")
    return counts


def _check_kept(ptr: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int) -> None:
    """Raise `InputError` unless the labels of kept texts fit together."""
    inside = not labels.size or (labels.min() >= 0 and labels.max() < n_labels)
    if not is_pointer(ptr, ptr.size - 1, labels.size) or not inside:
        raise InputError("the labels of stored texts must fit together, with ids of the model")


class EarlierLabels(NamedTuple):
    """The label table before the last change, and the labels without rows that were suggested, with descriptions."""

    vocab: LabelVocab
    new: NDArray[np.int32]
    texts: StringTable

    @classmethod
    def of(cls, vocab: LabelVocab, new: NewLabels | None) -> EarlierLabels:
        """Remember what a Tagger has."""
        if new is None:
            return cls(vocab, np.empty(0, dtype=np.int32), StringTable.from_strings([]))
        return cls(vocab, new.labels, new.texts)

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {"new": self.new, "blob": self.texts.blob, "offsets": self.texts.offsets}
        return State("EarlierLabels", arrays=arrays, parts={"vocab": vocab_state(self.vocab)})

    @classmethod
    def from_state(cls, state: State) -> EarlierLabels:
        """Rebuild from the stored form."""
        vocab, new = vocab_from_state(state.part("vocab")), state.array("new", np.int32, (None,))
        if new.size and (new.min() < 0 or new.max() >= len(vocab)):
            raise InputError("stored labels must be labels of their table", given="others")
        offsets = state.array("offsets", np.int64, (new.size + 1,))
        return cls(vocab, new, StringTable(state.array("blob", np.uint8, (None,)), offsets))


def tagger_state(tagger: Any) -> State:
    """Return the stored form of a fitted Tagger."""
    parts = {"model": tagger.model_.state(), "vocab": vocab_state(tagger.vocab_)}
    if tagger.encoder_ is not getattr(tagger.model_, "encoder_", None):  # otherwise the model stores it
        parts["encoder"] = tagger.encoder_.state()
    for name in ("probabilities", "new_labels", "earlier_labels", "examples", "group_samples"):
        part = getattr(tagger, f"{name}_")
        if part is not None:
            parts[name] = part.state()
    if len(tagger.learned_):
        parts["learned"] = tagger.learned_.state(tagger.model_)
    params: dict[str, Any] = {name: asdict(getattr(tagger, name)) for name in _SETTINGS}
    params |= {name: getattr(tagger, name) for name in ("keep_texts", "seed")}
    params["budget"] = asdict(tagger.budget)
    params |= {"quality": tagger.quality, "model_given": tagger.model is not None}
    params["simpler_because"] = tagger.simpler_because_
    params["words_per_text"] = tagger.words_per_text_
    params["fields"] = list(tagger.fields_)
    params["measures"] = None if tagger.measures_ is None else list(tagger.measures_)
    params["figures"] = None if tagger.figures_ is None else list(tagger.figures_)
    params |= {name: getattr(tagger, f"{name}_") for name in ("n_rows", "fingerprint", "training_seconds")}
    params["history"] = [list(one) for one in tagger.history_]
    return State("Tagger", params=params, arrays={"label_counts": tagger.label_counts_}, parts=parts)


def restored_settings(state: State) -> dict[str, Any]:
    """Return the constructor arguments of a stored Tagger."""
    settings = {name: kind(**state.param(name, dict)) for name, kind in _SETTINGS.items()}
    model: Any = restore(state.part("model"))
    return {
        "encoder": restore(state.part("encoder")) if "encoder" in state.parts else model.encoder_,
        "model": model,
        "quality": state.params.get("quality"),
        "budget": Budget(**state.params.get("budget", {})),
        **settings,
        "keep_texts": state.param("keep_texts", int),
        "seed": state.param("seed", int),
    }


def base_model(state: State, model: Any) -> Any:
    """Return what a stored Tagger with a fitted model was given as `model`: None, or a copy where it was fused."""
    if not state.param("model_given", bool):
        return None
    fused = state.params.get("quality") in ("balanced", "best") and isinstance(model, Ensemble)
    return model.members_[0].fresh().model if fused else model


def restored_parts(state: State, encoder: Any, model: Any) -> dict[str, Any]:
    """Return what a stored Tagger learned, by attribute name."""
    vocab = vocab_from_state(state.part("vocab"))
    parts = state.parts
    examples, grouped, known = (parts.get(name) for name in ("examples", "group_samples", "probabilities"))
    similarity = similarity_encoder(model, encoder)
    kept = None if examples is None else ExampleTexts.from_state(examples, similarity, len(vocab))
    counts = _checked_counts(state.array("label_counts", np.int64, (len(vocab),)))
    usage = Usage(counts, state.param("n_rows", int), int(getattr(model, "n_labels_", len(vocab))))
    measured, figures = (state.params.get(name) for name in ("measures", "figures"))
    return {
        "encoder_": encoder,
        "model_": model,
        "vocab_": vocab,
        "words_per_text_": state.params.get("words_per_text"),
        "fields_": tuple(map(str, state.params.get("fields", ()))),
        "label_counts_": counts,
        "n_rows_": state.param("n_rows", int),
        "fingerprint_": state.param("fingerprint", str),
        "training_seconds_": state.param("training_seconds", float),
        "history_": [TaggerUpdate(*one) for one in state.params.get("history", [])],
        "probabilities_": None if known is None else Probabilities.from_state(known),
        "measures_": None if measured is None else Measures(*measured),
        "figures_": None if figures is None else TrainingFigures(*figures),
        "simpler_because_": state.param("simpler_because", str),
        "new_labels_": _restored_new_labels(parts, vocab, usage, kept),
        "earlier_labels_": EarlierLabels.from_state(parts["earlier_labels"]) if "earlier_labels" in parts else None,
        "examples_": kept,
        "group_samples_": None if grouped is None else GroupSamples.from_state(grouped, len(vocab)),
        "learned_": LearnedRows.from_state(parts["learned"]) if "learned" in parts else LearnedRows(),
    }


def _restored_new_labels(
    parts: Mapping[str, State], vocab: LabelVocab, usage: Usage, kept: ExampleTexts | None
) -> NewLabels | None:
    """Return the new labels of a stored Tagger; older ones have descriptions of labels only, or nothing."""
    if "new_labels" in parts:
        return NewLabels.from_state(parts["new_labels"], vocab, usage.n_known)
    trained = max(1, int(np.count_nonzero(usage.counts)))
    rate = float(usage.counts.sum()) / max(1, usage.n_rows) / trained
    curve = NameCurve.default(list(kept.texts if kept is not None else vocab.names or ()), rate=rate)
    if curve is None:
        return None
    texts: dict[int, str] = {}
    if "label_texts" in parts:
        state = parts["label_texts"]
        labels = state.array("labels", np.int32, (None,))
        offsets = state.array("offsets", np.int64, (labels.size + 1,))
        described = StringTable(state.array("blob", np.uint8, (None,)), offsets)
        texts = dict(zip(labels.tolist(), described, strict=True))
    return NewLabels.build(curve, texts, texts, vocab, usage)


def vocab_state(vocab: LabelVocab) -> State:
    """Return the stored form of a label table."""
    codes = list(vocab.languages)
    tables = {"names": vocab.names, "uris": vocab.uris, "alternatives": vocab.alternatives}
    tables |= {f"language_{number}": vocab.languages[code] for number, code in enumerate(codes)}
    tables |= {f"detail_{what}": found for what, found in vocab.details.items()}
    arrays: dict[str, NDArray[Any]] = {}
    for name, table in tables.items():
        if table is not None:
            arrays |= {f"{name}_blob": np.asarray(table.blob), f"{name}_offsets": np.asarray(table.offsets)}
    if vocab.removed is not None:
        arrays["removed"] = vocab.removed
    params = {"size": vocab.size, "languages": codes}
    if vocab.id_kind != "row":
        params["id_kind"] = vocab.id_kind
    return State("LabelVocab", params=params, arrays=arrays)


def vocab_from_state(state: State) -> LabelVocab:
    """Rebuild a label table."""
    size = state.param("size", int)

    def table(name: str) -> StringTable | None:
        if f"{name}_blob" not in state.arrays:
            return None
        blob = state.array(f"{name}_blob", np.uint8, (None,))
        return StringTable(blob, state.array(f"{name}_offsets", np.int64, (size + 1,)))

    languages = {
        str(code): found
        for number, code in enumerate(state.param("languages", list))
        if (found := table(f"language_{number}")) is not None
    }
    removed = state.array("removed", np.bool_, (size,)) if "removed" in state.arrays else None
    kind = str(state.params.get("id_kind", "row"))
    details = {what: found for what in DETAILS if (found := table(f"detail_{what}")) is not None}
    return LabelVocab(size, table("names"), table("uris"), languages, removed, table("alternatives"), kind, details)
