"""Texts to tokens. In: texts, and a tokenizer trained on the user's texts or read from a folder. Out: `TokenRows`.

Texts are tokenized once; `TokenRows.take` then selects the rows of each batch. A tokenizer is stored with a model as
the JSON text of the `tokenizers` library. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import DataError, InputError, MissingExtraError

try:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as error:
    raise MissingExtraError("a text encoder", extra="neural") from error

_BLOCK = 8192  # texts tokenized together
_CHARACTERS = 12  # per token, of the beginning of a long text that is tokenized first
_RARE = 2  # minimum number of occurrences of a pair that becomes one token
PADDING = 1.1  # maximum cells per token of a padded chunk of more than a few rows
_FEW = 8  # rows; smaller chunks would cost more in calls than they save in padding


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Tokens of texts: row i is ``ids[indptr[i]:indptr[i + 1]]``; an empty text has none.

    Examples
    --------
    >>> rows = TokenRows.of([[5, 6, 7], [], [8]])
    >>> rows.take([2, 0]).ids.tolist(), rows.lengths.tolist(), len(rows)
    ([8, 5, 6, 7], [3, 0, 1], 3)
    """

    ids: NDArray[np.int32]
    indptr: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Self:
        """Build from a list of token ids per text."""
        listed = [np.asarray(row, dtype=np.int32) for row in rows]
        indptr = np.zeros(len(listed) + 1, dtype=np.int64)
        np.cumsum([row.size for row in listed], out=indptr[1:])
        return cls(np.concatenate([*listed, np.empty(0, dtype=np.int32)]), indptr)

    def __len__(self) -> int:
        return int(self.indptr.size) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each row."""
        return np.diff(self.indptr)

    def take(self, rows: NDArray[np.integer] | Sequence[int]) -> Self:
        """Return some rows in the given order; a row may be taken more than once."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        indptr = np.zeros(chosen.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=indptr[1:])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], lengths)
        return type(self)(self.ids[places], indptr)

    def chunks(self, max_tokens: int) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of the rows with tokens, in chunks of similar length.

        A padded chunk has at most `max_tokens` cells (or one row), and few of them are padding.
        """
        lengths = self.lengths
        order = np.argsort(lengths, kind="stable")
        order = order[np.searchsorted(lengths[order], 1) :]
        sizes = lengths[order].tolist()
        begin, tokens = 0, 0
        for place, length in enumerate(sizes):
            rows, cells = place - begin, (place - begin + 1) * length
            if rows and (cells > max_tokens or (rows >= _FEW and cells > PADDING * (tokens + length))):
                yield order[begin:place]
                begin, tokens = place, 0
            tokens += length
        if begin < order.size:
            yield order[begin:]

    def padded(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return (n, longest) ids, padded with 0, and a mask of the real ones (None if all are)."""
        part = self.take(rows)
        lengths = part.lengths
        longest = int(lengths.max(initial=0))
        if part.ids.size == lengths.size * longest:
            return part.ids.astype(np.int64).reshape(lengths.size, longest), None
        real = np.arange(longest) < lengths[:, None]
        cells = np.zeros(real.shape, dtype=np.int64)
        cells[real] = part.ids
        return cells, real


def train_tokenizer(texts: Iterable[str], size: int, max_length: int) -> Tokenizer:
    """Return a tokenizer with at most `size` tokens, trained on `texts`; it truncates texts to `max_length` tokens.

    Byte pairs over lower-cased words: a common word is one token, a rare one a few, and no character of any script is
    unknown. Case, width and ligatures do not matter (NFKC); accents do.

    Examples
    --------
    >>> tokenizer = train_tokenizer(["fir and oak", "fir or ash", "a fir"], 300, max_length=8)
    >>> tokenize(tokenizer, ["Fir", "", "樹"]).lengths.tolist()
    [1, 0, 4]
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=_RARE,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_clean(texts), trainer)
    tokenizer.enable_truncation(max_length)
    return tokenizer


def read_tokenizer(folder: Path, max_length: int) -> Tokenizer:
    """Return the tokenizer in a folder of Hugging Face files: its ``tokenizer.json``."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise DataError(
            "an encoder folder must hold tokenizer.json",
            path=folder,
            hint="Save it with AutoTokenizer.from_pretrained(...).save_pretrained(folder).",
        )
    return parse_tokenizer(path.read_text(encoding="utf-8"), max_length)


def parse_tokenizer(text: str, max_length: int) -> Tokenizer:
    """Return the tokenizer of a JSON text; it truncates texts to `max_length` tokens and does not pad."""
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise InputError("a tokenizer must be JSON of the tokenizers library", given=str(error)[:80]) from error
    # Set once here: changing a tokenizer while another thread uses it raises an error.
    tokenizer.enable_truncation(max_length)
    tokenizer.no_padding()
    return tokenizer


def tokenize(tokenizer: Tokenizer, texts: Iterable[str], max_length: int | None = None) -> TokenRows:
    """Return the tokens of each text, with special tokens if the tokenizer has them; an empty text has none.

    `max_length` is the number of tokens to which the tokenizer truncates texts. It changes no token: of a long text,
    only so many words are tokenized as have that many tokens.
    """
    marks = tokenizer.num_special_tokens_to_add(False)
    rows: list[list[int]] = []
    stream = _clean(texts)
    while block := list(islice(stream, _BLOCK)):
        begins = block if max_length is None else [_first_words(text, _CHARACTERS * max_length) for text in block]
        found = [one.ids for one in tokenizer.encode_batch_fast(begins)]
        short = [i for i, text in enumerate(block) if begins[i] is not text and len(found[i]) < (max_length or 0)]
        for place, one in zip(short, tokenizer.encode_batch_fast([block[i] for i in short]), strict=True):
            found[place] = one.ids
        rows.extend(ids if len(ids) > marks else [] for ids in found)
    return TokenRows.of(rows)


def _first_words(text: str, most: int) -> str:
    """Return the whole words in the first `most` characters of a text; the text itself where it is not longer."""
    return text if len(text) <= most else text[: max(0, text.rfind(" ", 0, most))]


def token_places(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return the (begin, end) characters of each token of a text; (0, 0) for special tokens."""
    return list(tokenizer.encode(next(_clean([text]))).offsets)


def count_tokens(rows: TokenRows, size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the number of rows that contain each token."""
    owner = np.repeat(np.arange(len(rows)), rows.lengths)
    pairs = np.unique(owner * size + rows.ids)
    return np.bincount(pairs % size, minlength=size)


def _clean(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts without lone surrogates, which the tokenizer does not accept."""
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                "texts must hold str only",
                given=f"{type(text).__name__} at position {place}",
                hint="Replace missing texts by ''.",
            )
        yield text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
