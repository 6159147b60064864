"""`TfidfEncoder`: texts to TF-IDF features with a native tokenizer. In: texts. Out: CSR rows of norm 1.

Decisions. Features are numbered by falling document frequency (ties by key), so that `max_features` is a prefix and
frequent features are close in memory. N-grams have 64-bit keys; a collision merges two of them. Texts are read twice,
once to count the keys and once to spell the chosen n-grams, so that memory is 16 bytes per distinct n-gram and the
spelling of the features only. The result does not depend on the number of threads. `encode_to_files` gives the same
bits with counts and features in files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import (
    Params,
    check_choice,
    check_float,
    check_int,
    check_stored_finite,
    check_threads,
    is_pointer,
)
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts
from tagwood.data.fields import split_fields
from tagwood.data.stored_texts import StoredTexts, WorkFolder
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import PackedTexts, char_tables, check_texts, packed_chunks
from tagwood.features.stored import (
    ENTRY_BYTES,
    PREFIX,
    CountFiles,
    RowWriter,
    StoredRows,
    open_rows,
    return_memory,
    writing_rows,
)
from tagwood.storage import State, storable, unpack_strings
from tagwood.storage.shards import ShardStore, digest

Lengths = tuple[int, int, int, int, int]

_ANALYZERS: Final = ("word", "char", "word+char")
_MAX_NGRAM: Final = 20
_MAX_FIELD_WEIGHT: Final = 10
_NOTHING: Final = (np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))  # counts of no n-grams
_COUNT_BYTES: Final = 64  # of an n-gram while runs of counts are merged
_ROWS_FOR_THREADS: Final = 64  # fewer texts use one thread; even looking up the number of cores takes time


@dataclass(frozen=True)
class Analysis:
    """How a text becomes weighted n-grams; `lengths` is words low, high, characters low, high, hash bits."""

    lengths: Lengths
    fold: bool
    sublinear: bool

    @property
    def hash_bits(self) -> int:
        """Bits of a hashed feature; 0 means a vocabulary."""
        return self.lengths[4]

    @property
    def char_mark(self) -> int:
        """Prefix of the spelling of character n-grams: ``~`` beside words, otherwise none."""
        return ord("~") if self.lengths[1] and self.lengths[3] else 0


class TermLimits(NamedTuple):
    """Which n-grams become features; integers are numbers of texts, floats are shares of them."""

    min_df: int | float
    max_df: int | float
    max_features: int | None


@dataclass(frozen=True, eq=False)
class Terms:
    """The features of a fitted encoder, most frequent first."""

    slots: NDArray[np.uint64]  # hash table of the features, for the kernels; empty when hashing
    idf: NDArray[np.float32]  # (n_features,); 0 for hashed features outside the limits
    spelling: NDArray[np.uint8]  # UTF-8 bytes of the terms
    # (n_features + 1,) offsets of the terms in `spelling`; (1,) when hashing
    offsets: NDArray[np.int64]
    n_texts: int


@storable("TfidfEncoder")
class TfidfEncoder(Params):
    """Turn texts into TF-IDF features of words, word n-grams and character n-grams.

    1. Fold the text (NFKC, case folding) and split it into words of two characters or more. Combining marks belong to
       their word; in scripts without spaces (Chinese, Japanese, Thai, ...) every character is a word, so that word
       n-grams are character n-grams there.
    2. Count n-grams; ``fit`` keeps those in `min_df` to `max_df` texts.
    3. Weight them by (1 + ln count) · idf, with idf = ln((1 + n) / (1 + df)) + 1, and scale each row to norm 1.

    On text without such marks and scripts the result equals scikit-learn's ``TfidfVectorizer`` with the same
    `ngram_range`, `min_df`, `max_df` and `sublinear_tf`, up to the order of columns.

    Parameters
    ----------
    ngrams
        Lowest and highest number of words in a word n-gram. (1, 1) makes smaller, somewhat worse models.
    analyzer
        ``"word"``; ``"char"``: character n-grams inside words and the spaces around them (robust against typing errors
        and inflection, several times slower); ``"word+char"``: both.
    char_ngrams
        Lowest and highest number of characters, for the analyzers with characters.
    min_df, max_df
        Keep n-grams that occur in at least / at most that many texts; a float is a share of the texts.
    max_features
        Keep only that many, the most frequent ones; default all.
    sublinear_tf
        Weight a count as 1 + ln(count); recommended for long texts.
    hash_bits
        Hash n-grams into 2**hash_bits columns (8 to 28) instead of learning a vocabulary: memory is fixed and `fit`
        accepts a stream, but features have no names. With 2**22 columns, collisions have almost no effect.
    field_weights
        How often each field of a text counts, where texts have one line per field and the last one the rest:
        ``(3, 1)`` counts the title, the first line of a text with several, three times. Texts with fewer lines stay as
        they are. Default: 1 each, and in a Tagger what is best for held-out rows.
    threads
        Number of threads; default all cores. The result does not depend on it.

    Examples
    --------
    >>> encoder = TfidfEncoder(ngrams=(1, 1), min_df=1).fit(["Fir trees", "fir and oak", "the oak"])
    >>> encoder.feature_names()[:2], encoder.n_features
    (['oak', 'fir'], 5)
    >>> encoder.transform(["OAK! Fir? Oak."]).toarray().round(3)[0, :2]
    array([0.861, 0.509], dtype=float32)
    """

    def __init__(
        self,
        ngrams: tuple[int, int] = (1, 2),
        analyzer: str = "word",
        char_ngrams: tuple[int, int] = (3, 5),
        min_df: int | float = 2,
        max_df: int | float = 1.0,
        max_features: int | None = None,
        sublinear_tf: bool = True,
        hash_bits: int | None = None,
        field_weights: Sequence[int] | None = None,
        threads: int | None = None,
    ) -> None:
        self.ngrams = ngrams
        self.analyzer = analyzer
        self.char_ngrams = char_ngrams
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.sublinear_tf = sublinear_tf
        self.hash_bits = hash_bits
        self.field_weights = field_weights
        self.threads = threads

    def fit(self, texts: Iterable[str], y: object = None) -> Self:
        """Learn the terms and their idf from texts (a stream is enough with `hash_bits`); `y` is ignored."""
        self.check_params()
        analysis = self.analysis()
        self._learn(self._readable(texts, analysis), analysis, None)
        return self

    def fit_transform(self, texts: Iterable[str], y: object = None) -> sparse.csr_array:
        """Return the same as ``fit(texts).transform(texts)``, with one pass less over the texts."""
        self.check_params()
        analysis = self.analysis()
        if analysis.hash_bits:
            texts = list(check_texts(texts))
            return self.fit(texts).transform(texts)
        pieces: list[CsrParts] = []
        self._learn(
            self._readable(texts, analysis),
            analysis,
            lambda chunk, terms: pieces.append(self._encode(chunk, analysis, terms)),
        )
        return stack_rows(pieces, self.n_features).to_scipy()

    def transform(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return (n_texts, n_features) features, float32, rows of norm 1 with rising columns.

        N-grams that `fit` did not keep are ignored; a text without known n-grams has an empty row.
        """
        return self.transform_parts(texts).to_scipy()

    def transform_parts(self, texts: Iterable[str]) -> CsrParts:
        """Return the same as `transform` as kernel arrays, which is faster for single texts."""
        terms = self._fitted()
        analysis = self._analysis_
        folds = char_tables(analysis.fold).folds
        rows = self._weighted(check_texts(texts))
        pieces = [self._encode(chunk, analysis, terms) for chunk in packed_chunks(rows, folds)]
        return pieces[0] if len(pieces) == 1 else stack_rows(pieces, terms.idf.size)

    @property
    def n_features(self) -> int:
        """Number of columns of the features."""
        return int(self._fitted().idf.size)

    def feature_names(self) -> list[str]:
        """Return the n-gram of each feature; beside words, character n-grams start with ``~``."""
        terms = self._spelled()
        return unpack_strings(terms.spelling, terms.offsets)

    def feature_name(self, feature: int) -> str:
        """Return the n-gram of one feature, without reading those of all others."""
        terms = self._spelled()
        begin, end = terms.offsets[feature : feature + 2]
        return bytes(terms.spelling[begin:end]).decode(errors="replace")

    def rarest(self) -> NDArray[np.bool_]:
        """Return (n_features,) whether a term is in so few texts that it would be no feature with one text less."""
        terms, least = self._fitted(), self.term_limits()[0]
        texts = np.round((1 + terms.n_texts) / np.exp(terms.idf.astype(np.float64) - 1) - 1)
        return np.asarray(texts - 1 < (least if isinstance(least, int) else least * terms.n_texts))

    def state(self) -> State:
        """Return parameters, vocabulary table, idf and spelling."""
        terms = self._fitted()
        return State(
            "TfidfEncoder",
            params={**self.get_params(deep=False), "n_texts": terms.n_texts},
            arrays={name: getattr(terms, name) for name in ("slots", "idf", "spelling", "offsets")},
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the encoder; its arrays stay memory-mapped."""
        encoder = cls()
        params = {name: state.params[name] for name in encoder.get_params(deep=False) if name in state.params}
        title = state.params.get("title_weight")  # of models stored before there were weights of fields
        params.setdefault("field_weights", None if title is None else [title, 1])
        for name in ("ngrams", "char_ngrams", "field_weights"):
            params[name] = None if params[name] is None else tuple(params[name])
        encoder.set_params(**params)
        encoder.check_params()
        encoder._analysis_ = encoder.analysis()
        encoder._terms_ = _terms_of(state, encoder._analysis_.hash_bits)
        return encoder

    def fit_to_files(self, texts: Iterable[str], writer: RowWriter, files: CountFiles) -> Self:
        """Learn from texts, which are read twice, and write their features; the same bits as `fit_transform`."""
        self.check_params()
        analysis, threads = self.analysis(), check_threads(self.threads)
        rows = self._weighted(check_texts(texts))

        def write(chunk: PackedTexts, terms: Terms) -> None:
            writer.add(self._encode(chunk, analysis, terms))

        self._terms_ = learn_terms(rows, analysis, self.term_limits(), threads, write, files)
        self._analysis_ = analysis
        if analysis.hash_bits:
            for chunk in packed_chunks(rows, char_tables(analysis.fold).folds):
                write(chunk, self._terms_)
        return self

    def restore(self, state: State) -> Self:
        """Take over what an encoder with the same parameters has learned."""
        fitted = type(self).from_state(state)
        self._analysis_, self._terms_ = fitted._analysis_, fitted._terms_
        return self

    def _spelled(self) -> Terms:
        """Return the terms, or raise `InputError` where they are hashed and have no spelling."""
        terms = self._fitted()
        if self._analysis_.hash_bits:
            raise InputError(
                "feature names require a vocabulary",
                given=f"hash_bits={self._analysis_.hash_bits}",
                hint="Fit with hash_bits=None.",
            )
        return terms

    def _learn(self, texts: Iterable[str], analysis: Analysis, also: Any) -> None:
        terms = learn_terms(texts, analysis, self.term_limits(), check_threads(self.threads), also)
        self._analysis_, self._terms_ = analysis, terms

    def _readable(self, texts: Iterable[str], analysis: Analysis) -> Iterable[str]:
        texts = self._weighted(check_texts(texts))
        return texts if analysis.hash_bits or isinstance(texts, Sequence) else list(texts)

    def _weighted(self, texts: Iterable[str]) -> Iterable[str]:
        """Return the texts with each of their fields as often as it counts."""
        weights = self.field_weights
        if weights is None or max(weights) == 1:
            return texts
        weighted = WeightedTexts(texts, weights)
        return weighted if isinstance(texts, StoredTexts) else list(weighted)

    def _encode(self, chunk: PackedTexts, analysis: Analysis, terms: Terms) -> CsrParts:
        rows = _kernels.tfidf_rows(
            *chunk,
            *char_tables(analysis.fold),
            analysis.lengths,
            terms.slots,
            terms.idf,
            analysis.sublinear,
            1 if chunk.offsets.size <= _ROWS_FOR_THREADS else check_threads(self.threads),
        )
        return CsrParts(*rows, terms.idf.size)

    def _fitted(self) -> Terms:
        terms: Terms | None = getattr(self, "_terms_", None)
        if terms is None:
            raise NotFittedError("TfidfEncoder must be fitted first", hint="Call fit(texts).")
        return terms

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        self.analysis()
        self.term_limits()
        if self.field_weights is not None:
            weights = self.field_weights
            if isinstance(weights, str) or not isinstance(weights, Sequence) or not weights:
                raise InputError("field_weights must be a list of whole numbers, one per field", given=repr(weights))
            for weight in weights:
                check_int(weight, "a weight of field_weights", low=1, high=_MAX_FIELD_WEIGHT)

    def analysis(self) -> Analysis:
        """Return the checked settings of how texts are split into n-grams."""
        check_choice(self.analyzer, "analyzer", _ANALYZERS)
        words = _check_lengths(self.ngrams, "ngrams")
        chars = _check_lengths(self.char_ngrams, "char_ngrams")
        bits = 0 if self.hash_bits is None else check_int(self.hash_bits, "hash_bits", low=8, high=28)
        kinds = self.analyzer.split("+")
        lengths = (*(words if "word" in kinds else (0, 0)), *(chars if "char" in kinds else (0, 0)), bits)
        return Analysis(lengths, fold=True, sublinear=bool(self.sublinear_tf))

    def term_limits(self) -> TermLimits:
        """Return the checked limits of which n-grams become features."""
        n = self.max_features
        return TermLimits(
            _check_df(self.min_df, "min_df"),
            _check_df(self.max_df, "max_df"),
            None if n is None else check_int(n, "max_features", low=1),
        )


class WeightedTexts:
    """Texts whose fields are repeated, as often as they are read."""

    def __init__(self, texts: Iterable[str], weights: Sequence[int]) -> None:
        self._texts, self._weights = texts, weights

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            yield _repeated(text, self._weights) if "\n" in text else text


def _repeated(text: str, weights: Sequence[int]) -> str:
    r"""Return a text with each field as often as its weight says.

    Examples
    --------
    >>> _repeated("On oaks\nOaks are trees.", (2, 1)), _repeated("On oaks\n", (2, 1))
    ('On oaks\nOn oaks\nOaks are trees.', 'On oaks\n')
    """
    fields = split_fields(text, len(weights))
    if fields is None:
        return text
    return "\n".join(line for line, weight in zip(fields, weights, strict=True) for _ in range(weight))


def encode_to_files(encoder: Any, texts: StoredTexts, work: WorkFolder) -> StoredRows:
    """Fit an encoder on texts and write their features to files; a later start finds them there.

    The encoder and the features have the bits that `fit_transform` gives in memory.
    """
    if not isinstance(encoder, TfidfEncoder):
        expected = "features are written to files by a TfidfEncoder"
        raise InputError(expected, given=type(encoder).__name__, hint="Train with other encoders in memory.")
    key = digest("features", encoder, texts.fingerprint)
    place, store = work.path / f"{PREFIX}{key}", ShardStore(work.path)
    most = max(1, work.max_bytes // ENTRY_BYTES)
    if place.exists() and key in store:
        encoder.restore(store.read(key))
        return open_rows(place, most, verify=True)
    counts = CountFiles(work.path / "counts", work.max_bytes // _COUNT_BYTES)
    with writing_rows(place) as writer, counts:
        encoder.fit_to_files(texts, writer, counts)
        writer.finish(encoder.n_features, key)
    store.write(key, encoder.state())
    return_memory()
    return open_rows(place, most)


def _check_lengths(value: Any, name: str) -> tuple[int, int]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise InputError(f"{name} must be a pair (lowest, highest)", given=repr(value))
    low = check_int(value[0], f"the lowest of {name}", low=1, high=_MAX_NGRAM)
    return low, check_int(value[1], f"the highest of {name}", low=low, high=_MAX_NGRAM)


def _check_df(value: Any, name: str) -> int | float:
    if isinstance(value, float):
        return check_float(value, name, low=0.0, high=1.0)
    return check_int(value, name, low=1)


def _terms_of(state: State, hash_bits: int) -> Terms:
    idf = state.array("idf", np.float32, (1 << hash_bits if hash_bits else None,))
    n_slots = 0 if hash_bits else 1 << (2 * idf.size).bit_length()
    spelling, offsets = state.array("spelling", np.uint8, (None,)), state.array("offsets", np.int64, (None,))
    if not is_pointer(offsets, 0 if hash_bits else idf.size, spelling.size):
        raise InputError("the spelling of stored terms must fit together")
    check_stored_finite(idf, "the weights of stored terms")
    n_texts = check_int(state.param("n_texts", int), "n_texts", low=1)
    return Terms(state.array("slots", np.uint64, (n_slots,)), idf, spelling, offsets, n_texts)


def stack_rows(pieces: list[CsrParts], n_features: int) -> CsrParts:
    """Return the rows of all pieces as one matrix."""
    starts = np.cumsum([0, *(piece.indices.size for piece in pieces)])
    indptr = [piece.indptr[1:] + start for piece, start in zip(pieces, starts[:-1], strict=True)]
    return CsrParts(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]),
        np.concatenate([np.empty(0, dtype=np.int32), *(piece.indices for piece in pieces)]),
        np.concatenate([np.empty(0, dtype=np.float32), *(piece.data for piece in pieces)]),
        n_features,
    )


def learn_terms(
    texts: Iterable[str],
    analysis: Analysis,
    limits: TermLimits,
    threads: int,
    also: Callable[[PackedTexts, Terms], None] | None = None,
    files: CountFiles | None = None,
) -> Terms:
    """Count, choose and spell the terms of `texts`.

    `texts` may be a stream when hashing; otherwise it is read twice. `also` is called in the second pass with each
    chunk and the terms, which are not spelled yet; it saves the caller a third pass. `files` take counts that do not
    fit into memory.
    """
    folds = char_tables(analysis.fold).folds
    keys, counts, n_texts = count_ngrams(packed_chunks(texts, folds), analysis, threads, files)
    if n_texts == 0:
        raise InputError("texts must have at least one text", given="none")
    low, high = _thresholds(limits, n_texts)
    if files is None:
        kept, n_keys = (counts >= low) & (counts <= high), keys.size
        keys, counts = keys[kept], counts[kept]
    else:
        keys, counts, n_keys = files.merged(low, high)
        return_memory()
    if not keys.size:
        raise InputError(
            f"at least one n-gram must occur in {low:g} to {high:g} of the {n_texts:,} texts",
            given=f"{n_keys:,} n-grams, none of them in that many",
            hint="Lower min_df, raise max_df, or check that the texts are not empty.",
        )
    if analysis.hash_bits:
        return _hashed_terms(keys, counts, n_texts, limits, analysis.hash_bits)
    order = np.lexsort((keys, -counts))[: limits.max_features]
    slots = _kernels.build_vocabulary(keys[order])
    bare = Terms(slots, _idf(counts[order], n_texts), np.empty(0, np.uint8), np.zeros(1, np.int64), n_texts)
    spelling, offsets = _spell(packed_chunks(texts, folds), bare, analysis, threads, also)
    return Terms(slots, bare.idf, spelling, offsets, n_texts)


def count_ngrams(
    chunks: Iterable[PackedTexts], analysis: Analysis, threads: int, files: CountFiles | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    """Return the keys of all n-grams in rising order, the number of texts with each, and the number of texts.

    With `files`, all counts are there in the end, and no keys are returned.
    """
    tables = char_tables(analysis.fold)
    heap = [_NOTHING]
    n_texts = 0
    for chunk in chunks:
        n_texts += chunk.offsets.size - 1
        heap.append(_kernels.count_terms(*chunk, *tables, analysis.lengths, threads))
        # Like a binary counter: runs of similar size are merged, so that each count moves only log(chunks) times.
        while len(heap) > 1 and heap[-2][0].size <= 2 * heap[-1][0].size:
            heap.append(_kernels.merge_counts(*heap.pop(), *heap.pop()))
        if files is not None and sum(keys.size for keys, _ in heap) > files.most:
            files.add(*_merged(heap))
    counted = _merged(heap)
    if files is None:
        return *counted, n_texts
    files.add(*counted)
    return *_NOTHING, n_texts


def _merged(heap: list[tuple[NDArray[np.uint64], NDArray[np.int64]]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return all counts as one run, and leave an empty one."""
    while len(heap) > 1:
        heap.append(_kernels.merge_counts(*heap.pop(), *heap.pop()))
    whole = heap.pop()
    heap.append(_NOTHING)
    return whole


def _thresholds(limits: TermLimits, n_texts: int) -> tuple[float, float]:
    low = limits.min_df if isinstance(limits.min_df, int) else limits.min_df * n_texts
    high = limits.max_df if isinstance(limits.max_df, int) else limits.max_df * n_texts
    return max(1, low), high


def _idf(counts: NDArray[np.int64], n_texts: int) -> NDArray[np.float32]:
    # Smoothed as in scikit-learn: as if one more text contained every term.
    return (np.log((1 + n_texts) / (1 + counts)) + 1).astype(np.float32)


def _hashed_terms(
    features: NDArray[np.uint64], counts: NDArray[np.int64], n_texts: int, limits: TermLimits, hash_bits: int
) -> Terms:
    best = np.lexsort((features, -counts))[: limits.max_features]
    idf = np.zeros(1 << hash_bits, dtype=np.float32)
    idf[features[best]] = _idf(counts[best], n_texts)
    return Terms(np.empty(0, np.uint64), idf, np.empty(0, np.uint8), np.zeros(1, np.int64), n_texts)


def _spell(
    chunks: Iterable[PackedTexts],
    terms: Terms,
    analysis: Analysis,
    threads: int,
    also: Callable[[PackedTexts, Terms], None] | None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    tables = char_tables(analysis.fold)
    known = np.zeros(terms.idf.size, dtype=np.uint8)
    spellings: list[bytes] = [b""] * terms.idf.size
    for chunk in chunks:
        ids, borders, raw = _kernels.spell_terms(
            *chunk, *tables, analysis.lengths, terms.slots, known, analysis.char_mark, threads
        )
        known[ids] = 1
        blob, places = raw.tobytes(), borders.tolist()
        for feature, begin, end in zip(ids.tolist(), places[:-1], places[1:], strict=True):
            spellings[feature] = blob[begin:end]
        if also is not None:
            also(chunk, terms)
    offsets = np.cumsum([0, *map(len, spellings)], dtype=np.int64)
    return np.frombuffer(b"".join(spellings), dtype=np.uint8), offsets
