"""Documents: one text per file, as ``.txt``, ``.md`` or ``.pdf``; with labels, Annif's folders ``txt-key``.

In: a file, or a folder of them. Out: a `Record` per document, named by its file, and folders of ``.txt`` files. Labels
are beside a document: ``name.key`` has a label name per line, ``name.tsv`` a ``<uri>`` and a name. PDF needs the extra
``files``; only text that is in the file is read, not pictures of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import decoded_lines, open_bytes, open_for_writing, reading_errors
from tagwood.data.records import Named, ReadOptions, Record, need_texts
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError, InputError, MissingExtraError

ENDINGS = (".txt", ".md", ".pdf")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def is_document(path: Path) -> bool:
    """Tell by its name whether a file is one document."""
    return path.name.lower().removesuffix(".gz").endswith(ENDINGS)


def document_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield each document of a folder in order of its name, or the one that `path` is.

    Documents without a label file are bad lines where labels are needed.
    """
    files = sorted(filter(is_document, path.iterdir())) if path.is_dir() else [path]
    for file in files:
        stem = Path(file.name.removesuffix(".gz")).stem
        beside = (file.with_name(stem + end) for end in (".tsv", ".key"))
        label_file = next((file for file in beside if file.exists()), None)
        if label_file is None and options.need_labels:
            options.bad.report(DataError(f"has no {stem}.key or {stem}.tsv beside it", path=file))
            continue
        try:
            text = _read_pdf(file, options) if file.suffix.lower() == ".pdf" else _read_text(file, options)
        except DataError as error:
            options.bad.report(error)
            continue
        labels = [] if label_file is None else _labels(label_file, options)
        yield Record(text, labels, stem, columns={"id": stem, "file": str(file)} if options.keep_columns else None)


def _read_text(path: Path, options: ReadOptions) -> str:
    encoding = options.encoding_of(path)
    try:
        with reading_errors(path), open_bytes(path) as content:
            return content.read().decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(f"byte {error.start + 1} is not {encoding} text", path=path) from error


def _read_pdf(path: Path, options: ReadOptions) -> str:
    try:
        import pypdf
    except ImportError as error:
        raise MissingExtraError("reading PDF", extra="files") from error
    import logging

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its remarks on odd files are not for readers of ours
    try:
        with reading_errors(path), path.open("rb") as file:
            pages = [page.extract_text() for page in pypdf.PdfReader(file).pages]
    except (DataError, OSError):
        raise
    except Exception as error:  # pypdf raises a dozen kinds for damaged and encrypted files
        raise DataError(f"is not a readable PDF ({str(error)[:100]})", path=path) from error
    text = "\n".join(pages).encode(errors="replace").decode()
    if not text.strip():
        options.file.warnings.append(f"{path.name} contains no text; a scan needs text recognition (OCR) first.")
    return text


def write_documents(dataset: Dataset, path: Path) -> None:
    """Write a folder of documents named by the rows' ids, or by row number if the ids are not sorted file names."""
    texts = need_texts(dataset, "a folder of .txt and .key files")
    vocab = dataset.vocab
    keys = vocab.keys()
    if any("\n" in key or "\t" in key or key.strip() != key or key[:1] == "<" for key in keys):
        raise InputError("label names in .key files must be one line without tabs and surrounding spaces")
    path.mkdir(parents=True, exist_ok=True)
    stems = _stems(dataset)
    uris = None if vocab.uris is None else list(vocab.uris)
    for stem, text, labels in zip(stems, texts, dataset.label_lists(), strict=True):
        # Bytes, so that line ends are kept.
        (path / f"{stem}.txt").write_bytes(text.encode())
        with open_for_writing(path / f"{stem}{'.key' if uris is None else '.tsv'}") as file:
            for label in labels:
                uri = "" if uris is None else uris[label]
                file.write(f"<{uri}>\t{vocab.name(label)}\n" if uri else f"{keys[label]}\n")


def _labels(path: Path, options: ReadOptions) -> list[str | Named]:
    labels: list[str | Named] = []
    for _, line in decoded_lines(path, options.bad, options.encoding_of(path)):
        first, _, second = (part.strip() for part in line.partition("\t"))
        if first.startswith("<") and first.endswith(">") and clean_uri(first):
            labels.append(Named(clean_uri(first), second))
        elif first:
            labels.append(first)
    return labels


def _stems(dataset: Dataset) -> list[str]:
    ids = dataset.ids or []
    sorted_ids = all(_SAFE_NAME.fullmatch(name) for name in ids) and list(ids) == sorted(set(ids))
    if ids and sorted_ids:
        return list(ids)
    width = len(str(max(0, dataset.n_rows - 1)))
    return [f"{row:0{width}d}" for row in range(dataset.n_rows)]
