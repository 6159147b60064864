"""`LabelSearch`: from texts to rankings and tags, without masked labels; the time-critical path of a Tagger.

In: texts. Out: `Ranking`s of ids, `Tags` of names. A short text goes from the encoder to the model as plain arrays.
Also: labels as users name them, and changes of the label table.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import pairwise, repeat
from typing import Any, NamedTuple, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_int, is_missing, missing_hint
from tagwood.data.vocab import LabelVocab, StringTable, as_array
from tagwood.errors import InputError
from tagwood.features.base import Encoder, takes_texts
from tagwood.models.base import LabelModel, add_labels
from tagwood.models.label_filter import LabelFilter
from tagwood.models.linear_tree import TreeRanker
from tagwood.ranking import Ranking

Label: TypeAlias = str | int | tuple[Any, ...]
Labels: TypeAlias = Any  # labels of any kind: a `LabelFilter`, a mask, or a collection or array of `Label`

_SEARCHED = 200_000  # searching more names for a similar one would take seconds
_MANY_ROWS = 64


class Tag(NamedTuple):
    """One suggested label; `label` is its id: as given in training, or its row of the label table if it was a name."""

    label: int | tuple[Any, ...]
    name: str
    uri: str | None
    score: float


class Tags(tuple[Tag, ...]):
    """The labels of one text, best first; `review` is True where a promise cannot be kept and review is needed.

    Examples
    --------
    >>> tags = Tags([Tag(3, "oak", None, 0.9)])
    >>> tags[0].name, len(tags), tags.review
    ('oak', 1, False)
    """

    review = False

    def __new__(cls, tags: Iterable[Tag] = (), *, review: bool = False) -> Self:
        """Wrap tags."""
        made = super().__new__(cls, tags)
        if review:
            made.review = True
        return made

    @property
    def names(self) -> list[str]:
        """Names of the labels."""
        return [tag.name for tag in self]


# Constructors without their Python layers: a batch makes hundreds of thousands of tags.
_NEW_TAG = cast(Callable[[Iterable[object]], Tag], partial(tuple.__new__, Tag))
_NEW_TAGS = cast(Callable[[Iterable[Tag]], Tags], partial(tuple.__new__, Tags))


class RecentFilters:
    """Filters of the arrays that were given lately, so that an array with the same content is not looked up again.

    Examples
    --------
    >>> recent, vocab = RecentFilters(), LabelVocab(5)
    >>> recent.filter_of(vocab, np.array([1, 2])) is recent.filter_of(vocab, np.array([1, 2]))
    True
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._known: tuple[tuple[NDArray[Any], LabelFilter], ...] = ()  # newest first; replaced, never changed

    def filter_of(self, vocab: LabelVocab, labels: Labels) -> LabelFilter:
        """Return labels of any kind as a filter over the rows of the table, which must be the same in all calls."""
        if isinstance(labels, LabelFilter):
            return make_filter(vocab, labels)
        given = as_array(labels)
        if isinstance(given, list) and set(map(type, given)) == {int}:
            with suppress(OverflowError):
                given = np.array(given, dtype=np.int64)
        if isinstance(given, list) or given.dtype.kind not in "biuU":
            return make_filter(vocab, given, column=labels)  # comparing them takes as long as looking them up
        for number, (seen, found) in enumerate(self._known):
            if seen.dtype == given.dtype and np.array_equal(seen, given):
                if number:
                    self._remember(seen, found)
                return found
        found = make_filter(vocab, given)
        self._remember(given.copy(), found)  # the caller's may change
        return found

    def _remember(self, given: NDArray[Any], found: LabelFilter) -> None:
        others = [one for one in self._known if one[1] is not found]
        self._known = ((given, found), *others[: self._most - 1])


class LabelSearch:
    """Ranks texts with encoder and model, and turns label ids into names."""

    def __init__(self, encoder: Encoder, model: LabelModel, vocab: LabelVocab) -> None:
        self._vocab = vocab
        self._model: Any = model
        # Linear trees take the arrays of the encoder; other models take SciPy arrays.
        direct = isinstance(model, TreeRanker) and hasattr(encoder, "transform_parts")
        self._encode: Any = getattr(encoder, "transform_parts" if direct else "transform")
        if takes_texts(model):
            self._encode = list
        self._masked = None if vocab.removed is None or not vocab.removed.any() else LabelFilter(vocab.removed)
        self._n_known = int(getattr(model, "n_labels_", len(vocab)))
        self._recent = RecentFilters()
        self._filters = {"restrict", "exclude"} <= inspect.signature(model.rank).parameters.keys()
        # Ids, and names and URIs by language, filled as they are needed.
        self._ids: dict[int, int | tuple[Any, ...]] = {}
        self._names: dict[str | None, tuple[dict[int, str], dict[int, str | None]]] = {}

    def features(self, texts: list[str]) -> Any:
        """Return the features of texts as the model takes them."""
        return self._encode(texts)

    def rank(
        self, texts: list[str], k: int, restrict: LabelFilter | None = None, exclude: LabelFilter | None = None
    ) -> Ranking:
        """Return the model's best `k` labels of each text."""
        options: dict[str, Any] = {}
        if restrict is not None:
            options["restrict"] = restrict.resized(self._n_known)
        out = self.left_out(exclude)
        if out is not None:
            options["exclude"] = out.resized(self._n_known)
        if options and not self._filters:
            raise InputError(
                "restrict, exclude and masked labels need a model whose rank takes them",
                given=type(self._model).__name__,
            )
        ranking: Ranking = self._model.rank(self._encode(texts), k=k, **options)
        return ranking

    def filter_of(self, labels: Labels | None) -> LabelFilter | None:
        """Return labels of any kind as a filter; arrays with the content of recent ones are not looked up again."""
        return None if labels is None else self._recent.filter_of(self._vocab, labels)

    def left_out(self, exclude: LabelFilter | None) -> LabelFilter | None:
        """Return the labels that are masked or excluded; None if there are none."""
        if self._masked is None or exclude is None:
            return self._masked if exclude is None else exclude
        return self._masked.complement.without(exclude).complement  # computed once for each filter

    def widened(self, ranking: Ranking) -> Ranking:
        """Return a ranking of the model over the whole label table, which may have grown since training."""
        return Ranking.from_trusted(ranking.indptr, ranking.labels, ranking.scores, len(self._vocab))

    def tags(self, ranking: Ranking, review: NDArray[np.bool_] | None, language: str | None) -> list[Tags]:
        """Return the rows of a ranking with names."""
        if ranking.n_rows < _MANY_ROWS:
            return self._tags(ranking, review, language)
        with _no_collection():
            return self._tags(ranking, review, language)

    def _tags(self, ranking: Ranking, review: NDArray[np.bool_] | None, language: str | None) -> list[Tags]:
        names, uris = self._names.setdefault(language, ({}, {}))
        labels: list[Any] = ranking.labels.tolist()
        for label in set(labels).difference(names):
            names[label], uris[label] = self._vocab.name(label, language), self._vocab.uri(label)
        uri: Iterable[str | None] = repeat(None)
        if self._vocab.uris is not None:
            uri = map(uris.__getitem__, labels)
        ids: Iterable[Any] = labels
        if self._vocab.id_kind != "row":
            for label in set(labels).difference(self._ids):
                self._ids[label] = self._vocab.label_id(label)
            ids = map(self._ids.__getitem__, labels)
        columns = zip(ids, map(names.__getitem__, labels), uri, ranking.scores.tolist(), strict=False)
        found = list(map(_NEW_TAG, columns))
        ends = ranking.indptr.tolist()
        if review is None:
            return [_NEW_TAGS(found[begin:end]) for begin, end in pairwise(ends)]
        places = zip(pairwise(ends), review.tolist(), strict=True)
        return [Tags(found[begin:end], review=doubt) for (begin, end), doubt in places]


def similarity_encoder(model: LabelModel, encoder: Encoder) -> Encoder:
    """Return the encoder that measures similarity of texts: that of a model that reads texts, or the Tagger's."""
    own = getattr(model, "encoder_", None) if takes_texts(model) else None
    return encoder if own is None else own


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: it would scan all tags again and again, and none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def find_label(vocab: LabelVocab, label: Label) -> int:
    """Return the row of a label given by name, URI or id; an unknown one raises `InputError` with the nearest name.

    Examples
    --------
    >>> find_label(LabelVocab.from_names(["oak", "maple"]), "mapel")
    Traceback (most recent call last):
    tagwood.errors.InputError: the label must be in the vocabulary; got 'mapel'. Did you mean 'maple'?
    """
    if not isinstance(label, str | tuple) and vocab.id_kind == "row":
        return check_int(label, "the label", low=0, high=len(vocab) - 1)
    found = int(vocab.find_many([label])[0])
    if found < 0 and isinstance(label, str) and vocab.names is None and label.isdecimal() and int(label) < len(vocab):
        found = int(label)
    if found >= 0:
        return found
    names = () if vocab.names is None or len(vocab) > _SEARCHED else list(vocab.names)
    near = get_close_matches(label, names, n=1) if isinstance(label, str) else []
    hint = f"Did you mean {near[0]!r}?" if near else f"It has {len(vocab):,} labels."
    raise InputError("the label must be in the vocabulary", given=repr(label), hint=hint)


def make_filter(
    vocab: LabelVocab, labels: Labels, *, unknown: str = "error", suggest: bool = False, column: Any = None
) -> LabelFilter:
    """Return labels of any kind as a filter over the rows of the table; see `Tagger.label_filter`.

    An unknown label raises `InputError`, with the nearest name only if `suggest`: that takes long in large tables.
    `column` is the column of another package that the labels were taken from, which errors refer to.
    """
    if isinstance(labels, LabelFilter):
        if labels.n_labels > len(vocab) or not labels.fits(vocab.row_names):  # label tables only grow
            others = labels.n_labels <= len(vocab)
            raise InputError(
                f"a filter must be made for this label table, which has {len(vocab):,} labels",
                given="one for other labels, or in another order" if others else f"one for {labels.n_labels:,} labels",
                hint="Prepare it again with label_filter(labels) of this Tagger.",
            )
        return labels.resized(len(vocab))
    check_choice(unknown, "unknown", ["error", "ignore"])
    given = as_array(labels)
    if isinstance(given, np.ndarray) and given.dtype == np.bool_:
        return LabelFilter(LabelFilter.of(given, len(vocab), "the filter").mask, rows=vocab.row_names)
    try:
        rows = vocab.find_many(given)
    except InputError as error:
        raise _wrong_kind(given, labels if column is None else column) or error from None
    missing = rows < 0
    if missing.any() and unknown == "error":
        first = given[int(np.argmax(missing))]
        if suggest:
            find_label(vocab, first)
        raise InputError(
            "labels must be in the vocabulary",
            given=f"{first!r}" + (f" and {int(missing.sum()) - 1:,} more unknown ones" if missing.sum() > 1 else ""),
            hint="Leave them out with label_filter(labels, unknown='ignore'); find(label) suggests the nearest name.",
        )
    mask = np.zeros(len(vocab), dtype=np.bool_)
    mask[rows[~missing]] = True
    return LabelFilter(mask, n_unknown=int(missing.sum()), rows=vocab.row_names)


def _wrong_kind(labels: Sequence[Any] | NDArray[Any], column: Any) -> InputError | None:
    """Return what is wrong with the first label that is no name or id, and what to do; None if all are or may be."""
    values = labels if isinstance(labels, list) else np.asarray(labels).ravel().tolist()
    mask = any(isinstance(one, bool) for one in values)
    missing = next((place for place, one in enumerate(values) if is_missing(one)), None)
    if missing is not None:
        what = "a mask must be True or False for each label" if mask else "labels must not be missing"
        hint = missing_hint(column, "mask" if mask else "labels", "False" if mask else None)
        return InputError(what, given=f"a missing value in row {missing}", hint=hint)
    place = next((place for place, one in enumerate(values) if not isinstance(one, str | int | tuple)), None)
    if mask:
        return InputError("a mask of labels must be an array", given="a list with bool", hint="Pass np.array(mask).")
    if place is None:
        return None
    first = values[place]
    hint = "Pass their texts: [str(label) for label in labels]."
    if isinstance(first, bytes):
        hint = "Decode them: [label.decode() for label in labels]."
    elif isinstance(first, float):
        hint = "Convert them: labels.astype('int64')." if hasattr(column, "astype") else "Convert them to int."
    elif isinstance(first, Iterable):
        hint = "Pass one collection of labels."
    given = f"{first!r:.60} in row {place}, of type {type(first).__name__}"
    return InputError("a label must be a name, a URI or an id", given=given, hint=hint)


def updated_vocab(vocab: LabelVocab, rename: Mapping[Label, str], mask: Labels, unmask: Labels) -> LabelVocab:
    """Return the table with new names and other labels masked; ids stay."""
    if not isinstance(rename, Mapping):
        hint = "Pass a dict: dict(zip(labels, names))."
        raise InputError("rename must map labels to their new names", given=f"a {type(rename).__name__}", hint=hint)
    removed = vocab.removed_mask().copy()
    removed[make_filter(vocab, mask, suggest=True).mask] = True
    removed[make_filter(vocab, unmask, suggest=True).mask] = False
    changed = replace(vocab, removed=removed if removed.any() else None)
    if not rename:
        return changed
    names = list(vocab.names) if vocab.names is not None else list(map(str, range(len(vocab))))
    for label, name in rename.items():
        if not isinstance(name, str) or not name.strip():
            raise InputError("a label's new name must be a text", given=repr(name))
        names[find_label(vocab, label)] = name
    in_use = [name for name, gone in zip(names, removed, strict=True) if not gone]
    if vocab.uris is None and len(set(in_use)) < len(in_use):
        twice = next(name for name in rename.values() if in_use.count(name) > 1)
        raise InputError("labels without URIs must have names of their own", given=f"{twice!r} twice")
    return replace(changed, names=StringTable.from_strings(names))


def with_texts(
    vocab: LabelVocab, texts: Mapping[Label, str], counts: NDArray[np.int64]
) -> tuple[LabelVocab, dict[int, str]]:
    """Return the table grown by the names and ids it does not know, and the texts by row of the table."""
    if not isinstance(texts, Mapping):
        hint = "Pass a dict: dict(zip(labels, descriptions))."
        raise InputError("texts must map labels to their descriptions", given=f"a {type(texts).__name__}", hint=hint)
    known = vocab.own_keys()
    new = [name for name in texts if isinstance(name, str) and name not in known]
    if new:
        vocab = vocab.add(new)
    ids: list[Any] = [one for one in texts if not isinstance(one, str)]
    fixed = vocab.id_kind == "row" and vocab.names is not None  # rows of a table with names: no id can be new
    unknown = [] if fixed or not ids else np.flatnonzero(vocab.find_many(ids) < 0).tolist()
    if unknown:
        vocab = vocab.add_ids(ids[place] for place in unknown)
    described = {vocab.id(one) if isinstance(one, str) else find_label(vocab, one): t for one, t in texts.items()}
    for label, text in described.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError("a label's description must be a text", given=repr(text))
        if label < counts.size and counts[label]:
            raise InputError(
                "only labels without training texts take descriptions",
                given=f"{vocab.name(label)!r} with {counts[label]:,} texts",
            )
    return vocab, described


def teach_labels(model: Any, vocab: LabelVocab, described: Mapping[int, str], before: LabelVocab) -> set[int]:
    """Add new labels and new names of the table to a model that finds labels by them; return the labels it now finds.

    A label's text is its description, or else its name; the description is one of its names, too. `before` is the table
    that the model knows. An `Ensemble` gets further names of labels that it was trained on; others are not its own.
    """
    known = int(getattr(model, "n_labels_", len(vocab)))
    if not hasattr(model, "add_labels"):
        return set()
    names = vocab.label_names()
    for label, text in described.items():
        names[label].append(text)
    members = [member.model for member in getattr(model, "members_", ())] or [model]
    matchers = [member for member in members if hasattr(member, "add_names")]
    older = before.label_names() if matchers else []
    changed = {i: own for i, (own, old) in enumerate(zip(names, older, strict=False)) if own != old}
    finds = knows_new_labels(model)
    for matcher in matchers:
        named = set() if finds else set(matcher.index_.name_labels.tolist())
        matcher.add_names({i: own for i, own in changed.items() if i < known and (finds or i in named)})
    if not finds:
        return set()
    if known < len(vocab):
        texts = [described.get(i, vocab.name(i)) for i in range(known, len(vocab))]
        add_labels(model, texts, names[known:])
    return set(range(0 if matchers else known, len(vocab)))


def knows_new_labels(model: Any) -> bool:
    """Whether a model finds labels without rows by itself; beside others, `NewLabels` does."""
    return hasattr(model, "add_labels") and not hasattr(model, "members_")
