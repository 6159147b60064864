"""Which encoder suits the texts, where none was named. In: texts. Out: ``"minilm"`` or ``"bag"``.

MiniLM is English. Whether it can read a text is seen from its tokenizer: it has most English words whole and takes
others apart. Of the words of five English sets 88 to 96 % were whole, of German, French, Spanish, Dutch and Finnish
sentences at most 57 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from tagwood.errors import MissingExtraError
from tagwood.neural.bert_weights import minilm_folder
from tagwood.neural.text_tokens import read_tokenizer

_SAMPLE = 500  # texts that are looked at
_LENGTH = 128  # tokens of each
WHOLE = 0.75  # share of words from which on MiniLM is taken


def suitable_encoder(texts: Sequence[str]) -> str:
    """Return ``"minilm"`` if it is installed and knows the words of the texts, otherwise ``"bag"``.

    Examples
    --------
    >>> suitable_encoder(["Das Gesetz zur Förderung erneuerbarer Energien"])
    'bag'
    """
    if not texts:
        return "bag"
    try:
        folder = minilm_folder()
    except MissingExtraError:
        return "bag"
    places = np.unique(np.linspace(0, len(texts) - 1, min(_SAMPLE, len(texts))).astype(np.int64))
    tokenizer = read_tokenizer(folder, _LENGTH)
    words = whole = 0
    for found in tokenizer.encode_batch([texts[place] for place in places], add_special_tokens=False):
        for _, pieces in groupby(zip(found.word_ids, found.tokens, strict=True), key=lambda pair: pair[0]):
            first, *others = (token for _, token in pieces)
            if first.isalpha() or others or first.startswith("["):  # signs and numbers say nothing
                words += 1
                whole += not others and not first.startswith("[")
    return "minilm" if words and whole >= WHOLE * words else "bag"
