"""`TfidfEncoder`: texts to TF-IDF features with a native tokenizer. In: texts. Out: CSR rows of norm 1.

Decisions: features are numbered by falling document frequency (ties by key), so that `max_features` is a
prefix and what is used most lies together in memory; n-grams are known by 64-bit keys, and a collision merges
two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._params import Params
from tagwood._sparse import CsrParts
from tagwood.errors import InputError, NotFittedError
from tagwood.features.terms import Analysis, Limits, Terms, learn_terms
from tagwood.features.texts import PackedTexts, check_texts, packed_chunks
from tagwood.features.unicode import char_tables
from tagwood.storage import State, storable, unpack_strings

_ANALYZERS: Final = ("word", "char", "word+char")
_MAX_NGRAM: Final = 20
_ROWS_FOR_THREADS: Final = 64  # fewer texts are not shared out, and asking for the number of cores takes time


@storable("TfidfEncoder")
class TfidfEncoder(Params):
    """Turn texts into TF-IDF features of words, word n-grams and character n-grams.

    1. Fold the text (NFKC, case folding) and cut it into words of two characters or more. Combining marks
       belong to their word; in scripts without spaces (Chinese, Japanese, Thai, ...) every character is a
       word, so that word n-grams are character n-grams there.
    2. Count n-grams; ``fit`` keeps those in `min_df` to `max_df` texts.
    3. Weigh: (1 + ln count) · idf, with idf = ln((1 + n) / (1 + df)) + 1, and scale each row to norm 1.

    On text without such marks and scripts the result equals scikit-learn's ``TfidfVectorizer`` with the same
    `ngram_range`, `min_df`, `max_df` and `sublinear_tf`, up to the order of columns.

    Parameters
    ----------
    ngrams
        Lowest and highest number of words in a word n-gram. (1, 1) makes smaller, somewhat worse models.
    analyzer
        ``"word"``; ``"char"``: character n-grams inside words, with the spaces around (robust against typing
        errors and inflection, several times slower); ``"word+char"``: both.
    char_ngrams
        Lowest and highest number of characters, for the analyzers with characters.
    min_df, max_df
        Keep n-grams that stand in at least / at most so many texts; a float is a share of the texts.
    max_features
        Keep only so many, the most frequent ones; default all.
    sublinear_tf
        Weigh a count as 1 + ln(count). Long texts need it.
    hash_bits
        Make features by hashing into 2**hash_bits columns (8 to 28) instead of learning a vocabulary: memory
        is fixed and `fit` takes a stream, but features have no names. 2**22 columns lose next to nothing to
        collisions.
    fold
        Make cases and compatible characters equal. Turn it off only if capital letters carry meaning.
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
        fold: bool = True,
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
        self.fold = fold
        self.threads = threads

    def fit(self, texts: Iterable[str]) -> Self:
        """Learn the terms and their idf from a collection of texts (a stream is enough with `hash_bits`)."""
        analysis = self._analysis()
        self._learn(self._readable(texts, analysis), analysis, None)
        return self

    def fit_transform(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the same as ``fit(texts).transform(texts)``, with one reading of the texts less."""
        analysis = self._analysis()
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

        N-grams that `fit` did not keep are left out; a text without any known one gets an empty row.
        """
        return self.transform_parts(texts).to_scipy()

    def transform_parts(self, texts: Iterable[str]) -> CsrParts:
        """Return the same as `transform` as kernel arrays: the short way for one text at a time."""
        terms = self._fitted()
        analysis = self._analysis_
        folds = char_tables(analysis.fold).folds
        pieces = [self._encode(chunk, analysis, terms) for chunk in packed_chunks(check_texts(texts), folds)]
        return pieces[0] if len(pieces) == 1 else stack_rows(pieces, terms.idf.size)

    @property
    def n_features(self) -> int:
        """Number of columns of the features."""
        return int(self._fitted().idf.size)

    @property
    def idf_(self) -> NDArray[np.float32]:
        """(n_features,) inverse document frequencies."""
        return self._fitted().idf

    def feature_names(self) -> list[str]:
        """Return the n-gram of each feature; beside words, character n-grams start with ``~``."""
        terms = self._fitted()
        if self._analysis_.hash_bits:
            raise InputError(
                "feature names need a vocabulary",
                given=f"hash_bits={self._analysis_.hash_bits}",
                hint="Fit with hash_bits=None.",
            )
        return unpack_strings(terms.spelling, terms.offsets)

    def state(self) -> State:
        """Return parameters, vocabulary table, idf and spelling."""
        terms = self._fitted()
        return State(
            "TfidfEncoder",
            params={**self.get_params(), "n_texts": terms.n_texts},
            arrays={
                "slots": terms.slots,
                "idf": terms.idf,
                "spelling": terms.spelling,
                "offsets": terms.offsets,
            },
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the encoder; its arrays stay maps of the model file, so loading takes no time."""
        encoder = cls()
        params = {name: state.params[name] for name in encoder.get_params() if name in state.params}
        for name in ("ngrams", "char_ngrams"):
            params[name] = tuple(state.param(name, list))
        encoder.set_params(**params)
        encoder._analysis_ = encoder._analysis()
        encoder._terms_ = _terms_of(state, encoder._analysis_.hash_bits)
        return encoder

    def _learn(self, texts: Iterable[str], analysis: Analysis, also: Any) -> None:
        terms = learn_terms(texts, analysis, self._limits(), check_threads(self.threads), also)
        self._analysis_, self._terms_ = analysis, terms

    def _readable(self, texts: Iterable[str], analysis: Analysis) -> Iterable[str]:
        texts = check_texts(texts)
        return texts if analysis.hash_bits or isinstance(texts, Sequence) else list(texts)

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

    def _check_params(self) -> None:
        self._analysis()
        self._limits()

    def _analysis(self) -> Analysis:
        check_choice(self.analyzer, "analyzer", _ANALYZERS)
        words = _check_lengths(self.ngrams, "ngrams")
        chars = _check_lengths(self.char_ngrams, "char_ngrams")
        bits = 0 if self.hash_bits is None else check_int(self.hash_bits, "hash_bits", low=8, high=28)
        kinds = self.analyzer.split("+")
        lengths = (*(words if "word" in kinds else (0, 0)), *(chars if "char" in kinds else (0, 0)), bits)
        return Analysis(lengths, bool(self.fold), bool(self.sublinear_tf))

    def _limits(self) -> Limits:
        n = self.max_features
        return Limits(
            _check_df(self.min_df, "min_df"),
            _check_df(self.max_df, "max_df"),
            None if n is None else check_int(n, "max_features", low=1),
        )


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
    return Terms(
        state.array("slots", np.uint64, (n_slots,)),
        idf,
        state.array("spelling", np.uint8, (None,)),
        state.array("offsets", np.int64, (1 if hash_bits else idf.size + 1,)),
        state.param("n_texts", int),
    )


def stack_rows(pieces: list[CsrParts], n_features: int) -> CsrParts:
    """Return the rows of all pieces, one after the other."""
    starts = np.cumsum([0, *(piece.indices.size for piece in pieces)])
    indptr = [piece.indptr[1:] + start for piece, start in zip(pieces, starts[:-1], strict=True)]
    return CsrParts(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]),
        np.concatenate([np.empty(0, dtype=np.int32), *(piece.indices for piece in pieces)]),
        np.concatenate([np.empty(0, dtype=np.float32), *(piece.data for piece in pieces)]),
        n_features,
    )
