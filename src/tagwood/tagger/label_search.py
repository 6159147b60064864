"""`LabelSearch`: texts to rankings and tags, with masked labels left out. The hot path of a Tagger.

In: texts. Out: `Ranking`s of ids, `Tags` of names. One short text goes from the encoder to the model as plain arrays.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise, repeat
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError
from tagwood.features.encoder import Encoder
from tagwood.models.base import LabelModel, takes_texts
from tagwood.models.linear_tree import LinearTree
from tagwood.ranking import Ranking
from tagwood.tagger.label_keys import masked_ids
from tagwood.tagger.tags import Tag, Tags

# Tag(...) and Tags(...) without their Python layers: a batch makes hundreds of thousands.
_NEW_TAG = cast(Callable[[Iterable[object]], Tag], partial(tuple.__new__, Tag))
_NEW_TAGS = cast(Callable[[Iterable[Tag]], Tags], partial(tuple.__new__, Tags))
_MANY_ROWS = 64


class LabelSearch:
    """Asks encoder and model, and knows the names of what they answer."""

    def __init__(self, encoder: Encoder, model: LabelModel, vocab: LabelVocab) -> None:
        self._vocab = vocab
        self._model: Any = model
        # Models outside the package take SciPy arrays; the linear tree also takes the encoder's own.
        direct = isinstance(model, LinearTree) and hasattr(encoder, "transform_parts")
        self._encode: Any = getattr(encoder, "transform_parts" if direct else "transform")
        if takes_texts(model):
            self._encode = list
        self._masked = masked_ids(vocab)
        self._n_known = int(getattr(model, "n_labels_", len(vocab)))
        # Names and URIs by language, as far as they were asked for.
        self._names: dict[str | None, tuple[dict[int, str], dict[int, str | None]]] = {}

    def features(self, texts: list[str]) -> Any:
        """Return the features of texts as the model takes them."""
        return self._encode(texts)

    def rank(self, texts: list[str], k: int, restrict: list[int] | None, exclude: list[int]) -> Ranking:
        """Return the model's best `k` labels of each text."""
        known = self._n_known
        options: dict[str, Any] = {}
        if restrict is not None:
            options["restrict"] = [label for label in restrict if label < known]
        if left_out := [label for label in self._masked + exclude if label < known]:
            options["exclude"] = left_out
        if options and not options.keys() <= inspect.signature(self._model.rank).parameters.keys():
            raise InputError(
                "restrict, exclude and masked labels need a model whose rank takes them",
                given=type(self._model).__name__,
            )
        ranking: Ranking = self._model.rank(self._encode(texts), k=k, **options)
        return ranking

    def left_out(self, restrict: list[int] | None, exclude: list[int]) -> list[int]:
        """Return all labels that must not be returned."""
        others = [] if restrict is None else sorted(set(range(len(self._vocab))) - set(restrict))
        return self._masked + exclude + others

    def widened(self, ranking: Ranking) -> Ranking:
        """Return a ranking of the model over the whole label table, which may have grown since training."""
        return Ranking._trusted(ranking.indptr, ranking.labels, ranking.scores, len(self._vocab))

    def tags(self, ranking: Ranking, review: NDArray[np.bool_] | None, language: str | None) -> list[Tags]:
        """Return the rows of a ranking with names."""
        if ranking.n_rows < _MANY_ROWS:
            return self._tags(ranking, review, language)
        with _no_collection():
            return self._tags(ranking, review, language)

    def _tags(self, ranking: Ranking, review: NDArray[np.bool_] | None, language: str | None) -> list[Tags]:
        names, uris = self._names.setdefault(language, ({}, {}))
        labels = ranking.labels.tolist()
        for label in set(labels).difference(names):
            names[label], uris[label] = self._vocab.name(label, language), self._vocab.uri(label)
        uri: Iterable[str | None] = repeat(None)
        if self._vocab.uris is not None:
            uri = map(uris.__getitem__, labels)
        columns = zip(labels, map(names.__getitem__, labels), uri, ranking.scores.tolist(), strict=False)
        found = list(map(_NEW_TAG, columns))
        ends = ranking.indptr.tolist()
        if review is None:
            return [_NEW_TAGS(found[begin:end]) for begin, end in pairwise(ends)]
        places = zip(pairwise(ends), review.tolist(), strict=True)
        return [Tags(found[begin:end], review=doubt) for (begin, end), doubt in places]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold the garbage collector back: it would look through all tags again and again, and none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
