"""The parser of sparse text rows in plain Python: slow, obvious, and what `parse_rows` must return."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]

_SPACES = re.compile(rb"[ \t\r]+")
_LABELS = re.compile(rb"[0-9]+(,[0-9]+)*")
_FEATURE = re.compile(rb"([0-9]+):(.*)", re.DOTALL)
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(inf|nan|Inf|NaN|INF|NAN)", re.DOTALL)


class _ProblemError(Exception):
    def __init__(self, code: int, token: int) -> None:
        self.code = code
        self.token = token


def parse_rows(
    text: NDArray[np.uint8], last: bool, max_rows: int, n_labels: int, n_features: int
) -> tuple[_I64, _I32, _I64, _I32, _F32, tuple[int, int, int]]:
    """Parse complete lines ``l1,l2 f:v f:v``, at most `max_rows`, up to the first bad one.

    Returns the ends of the label lists, the labels, the ends of the feature lists, features, values, and
    (bytes parsed, problem, byte of the offending token). Problems: 0 none, 1 no label, 2 label too large,
    3 no ``feature:value``, 4 feature too large, 5 value is no number, 6 value is not finite in float32.
    """
    content = text.tobytes()
    labels: list[int] = []
    features: list[int] = []
    values: list[np.float32] = []
    label_ends: list[int] = []
    feature_ends: list[int] = []
    at = problem = problem_at = 0
    while at < len(content) and len(label_ends) < max_rows:
        end = content.find(b"\n", at)
        if end < 0 and not last:
            break
        line = content[at:] if end < 0 else content[at:end]
        try:
            row_labels, row_features, row_values = _parse_line(line, n_labels, n_features)
        except _ProblemError as found:
            problem, problem_at = found.code, at + found.token
            break
        labels += row_labels
        features += row_features
        values += row_values
        label_ends.append(len(labels))
        feature_ends.append(len(features))
        at = len(content) if end < 0 else end + 1
    return (
        np.array(label_ends, dtype=np.int64),
        np.array(labels, dtype=np.int32),
        np.array(feature_ends, dtype=np.int64),
        np.array(features, dtype=np.int32),
        np.array(values, dtype=np.float32),
        (at, problem, problem_at),
    )


def _parse_line(line: bytes, n_labels: int, n_features: int) -> tuple[list[int], list[int], list[np.float32]]:
    labels: list[int] = []
    features: list[int] = []
    values: list[np.float32] = []
    place = 0
    for number, token in enumerate(_SPACES.split(line)):
        place = line.find(token, place)
        if not token:
            continue
        if number == 0 and not re.match(rb"[0-9]*:", token):
            labels = _parse_labels(token, n_labels, place)
        else:
            feature, value = _parse_feature(token, n_features, place)
            features.append(feature)
            values.append(value)
        place += len(token)
    return labels, features, values


def _parse_labels(token: bytes, n_labels: int, place: int) -> list[int]:
    labels = []
    for part in re.findall(rb"[0-9]+,?|.", token, re.DOTALL):
        if not part[:1].isdigit():
            raise _ProblemError(1, place)
        # A label is read up to its comma or the end of the token; anything else behind it is no label.
        digits = part.rstrip(b",")
        followed = token.endswith(part) or part.endswith(b",")
        if not followed:
            raise _ProblemError(1, place)
        if int(digits) >= n_labels:
            raise _ProblemError(2, place)
        labels.append(int(digits))
    if not _LABELS.fullmatch(token):
        raise _ProblemError(1, place)
    return labels


def _parse_feature(token: bytes, n_features: int, place: int) -> tuple[int, np.float32]:
    match = _FEATURE.fullmatch(token)
    if match is None:
        raise _ProblemError(3, place)
    if int(match[1]) >= n_features:
        raise _ProblemError(4, place)
    if _NUMBER.fullmatch(match[2]) is None:
        raise _ProblemError(6 if _NOT_FINITE.match(match[2]) else 5, place)
    with np.errstate(over="ignore"):
        value = np.float32(float(match[2]))
    if not np.isfinite(value):
        raise _ProblemError(6, place)
    return int(match[1]), value
