"""`TokenRows` against lists of lists."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tagwood.neural.encoders.tokens import PADDING, TokenRows, tokenize, train_tokenizer

ROWS = st.lists(st.lists(st.integers(1, 99), max_size=20), max_size=60)


@given(ROWS, st.data())
def test_taking_rows_is_indexing_a_list(rows, data):
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=30)) if rows else []
    taken = TokenRows.of(rows).take(places)
    assert [taken.ids[a:b].tolist() for a, b in zip(taken.indptr[:-1], taken.indptr[1:], strict=True)] == [
        rows[place] for place in places
    ]
    assert taken.ids.dtype == np.int32


@given(ROWS, st.integers(1, 200))
def test_chunks_hold_every_row_with_tokens_once_and_little_padding(rows, most):
    tokens = TokenRows.of(rows)
    chunks = list(tokens.chunks(most))
    assert sorted(np.concatenate([*chunks, np.empty(0, int)]).tolist()) == [
        place for place, row in enumerate(rows) if row
    ]
    for chunk in chunks:
        lengths = tokens.lengths[chunk]
        cells = lengths.size * lengths.max()
        assert cells <= most or lengths.size == 1
        assert lengths.size <= 8 or cells <= PADDING * lengths.sum()


@given(ROWS)
def test_rectangles_hold_the_rows_and_say_what_is_padding(rows):
    tokens = TokenRows.of(rows)
    for chunk in tokens.chunks(100):
        ids, real = tokens.padded(chunk)
        keep = np.ones(ids.shape, dtype=bool) if real is None else real
        assert [row[mask].tolist() for row, mask in zip(ids, keep, strict=True)] == [rows[i] for i in chunk]
        assert (ids[~keep] == 0).all()


def test_rows_are_pickled():
    back = pickle.loads(pickle.dumps(TokenRows.of([[1], [], [2, 3]])))
    assert back.ids.tolist() == [1, 2, 3]
    assert back.lengths.tolist() == [1, 0, 2]


def test_only_the_beginning_of_a_long_text_is_tokenized_and_its_tokens_stay_the_same():
    tokenizer = train_tokenizer(["fir and oak", "salt of the sea", "incomprehensibilities"] * 3, 400, max_length=8)
    texts = ["fir " * 200, "x" * 300, " " * 200 + "sea", "the sea\tof\nsalt " * 40, "incomprehensibilities " * 30, ""]
    whole, begins = tokenize(tokenizer, texts), tokenize(tokenizer, texts, 8)
    assert begins.ids.tolist() == whole.ids.tolist()
    assert begins.lengths.tolist() == whole.lengths.tolist()
    seen = []

    class Counting:
        num_special_tokens_to_add = staticmethod(tokenizer.num_special_tokens_to_add)

        def encode_batch_fast(self, batch):
            seen.extend(map(len, batch))
            return tokenizer.encode_batch_fast(batch)

    tokenize(Counting(), texts[:1], 8)
    assert 0 < sum(seen) < 100
