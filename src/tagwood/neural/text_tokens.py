"""Texts to tokens. In: texts, a tokenizer trained on the user's texts or read with weights. Out: `TokenRows`.

Tokenizers are kept as the JSON text of the `tokenizers` library, which is stored with a model. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from tagwood.errors import DataError, InputError, MissingExtraError
from tagwood.neural.token_rows import TokenRows

try:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as error:
    raise MissingExtraError("a text encoder", extra="neural") from error

_BLOCK = 8192  # texts that are tokenised together
_RARE = 2  # a pair of letters that comes less often is not made one token


def train_tokenizer(texts: Iterable[str], size: int, max_length: int) -> Tokenizer:
    """Return a tokenizer with at most `size` tokens, learned from `texts`; it cuts texts at `max_length` tokens.

    Byte pairs over lower-cased words: common words are one token, rare ones a few, and no letter is unknown, whatever
    the script. Case, width and ligatures do not matter (NFKC); accents do.

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
    """Return the tokenizer of a JSON text; it cuts texts at `max_length` tokens and pads nothing."""
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise InputError(
            "a tokenizer must be JSON of the tokenizers library", given=str(error)[:80]
        ) from error
    # Once and for all: a tokenizer that is changed while another thread uses it raises.
    tokenizer.enable_truncation(max_length)
    tokenizer.no_padding()
    return tokenizer


def tokenize(tokenizer: Tokenizer, texts: Iterable[str]) -> TokenRows:
    """Return the tokens of each text, with marks of begin and end if the tokenizer has them; none for an empty text."""
    marks = tokenizer.num_special_tokens_to_add(False)
    rows: list[list[int]] = []
    stream = _clean(texts)
    while block := list(islice(stream, _BLOCK)):
        found = tokenizer.encode_batch_fast(block)
        rows.extend(one.ids if len(one.ids) > marks else [] for one in found)
    return TokenRows.of(rows)


def token_places(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return where each token of a text stands in it: (begin, end) in letters, (0, 0) for marks of begin and end."""
    return list(tokenizer.encode(next(_clean([text]))).offsets)


def count_tokens(rows: TokenRows, size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return in how many rows each token stands."""
    owner = np.repeat(np.arange(len(rows)), rows.lengths)
    pairs = np.unique(owner * size + rows.ids)
    return np.bincount(pairs % size, minlength=size)


def _clean(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts without lone surrogates, which the tokenizer cannot take."""
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                "texts must hold str only",
                given=f"{type(text).__name__} at position {place}",
                hint="Replace missing texts by ''.",
            )
        yield text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
