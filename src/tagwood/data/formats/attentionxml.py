"""AttentionXML: ``train_texts.txt`` with a text per line, ``train_labels.txt`` with names between spaces.

In: the folder, or one of the two files. Out: a `Dataset` with texts and label names (``_`` for spaces).
``test_`` files are the split ``test``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, existing, numbered_lines, open_for_writing, split_folder
from tagwood.data.records import ReadOptions, Record, build_dataset, flat_text, need_texts
from tagwood.errors import DataError


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read one split of the folder."""
    _, label_file = _files(path, options)
    return build_dataset(records(path, options), label_file, options, words=True)


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of one split of the folder."""
    text_file, label_file = _files(path, options)
    both = zip_longest(numbered_lines(text_file), numbered_lines(label_file))
    for texts, labels in both:
        if texts is None or labels is None:
            shorter, other = (label_file, text_file) if labels is None else (text_file, label_file)
            line = (texts or labels or (0, b""))[0]
            options.bad.report(DataError(f"ends before {other.name} does", path=shorter, line=line))
            return
        text = _decode(text_file, texts, options.bad, options.encoding)
        names = _decode(label_file, labels, options.bad, options.encoding)
        if text is not None and names is not None:
            yield Record(text, names.split(), line=labels[0])


def write(dataset: Dataset, path: Path) -> None:
    """Write the folder as a training split; line breaks and tabs in texts become spaces."""
    texts = need_texts(dataset, "AttentionXML")
    words = dataset.vocab.words()
    path.mkdir(parents=True, exist_ok=True)
    with open_for_writing(path / "train_texts.txt") as file:
        file.writelines(flat_text(text) + "\n" for text in texts)
    with open_for_writing(path / "train_labels.txt") as file:
        file.writelines(" ".join(words[label] for label in row) + "\n" for row in dataset.label_lists())


def _files(path: Path, options: ReadOptions) -> tuple[Path, Path]:
    folder, split = split_folder(path, options.split, {"train_": "train", "test_": "test"})
    return (
        existing(folder / f"{split}_texts.txt", "the texts"),
        existing(folder / f"{split}_labels.txt", "the labels"),
    )


def _decode(path: Path, line: tuple[int, bytes], bad: BadLines, encoding: str) -> str | None:
    try:
        return line[1].decode(encoding)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not {encoding} text"
        bad.report(DataError(reason, path=path, line=line[0]))
        return None
