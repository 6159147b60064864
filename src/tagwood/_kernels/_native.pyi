"""Types of the native kernels; what each one computes is said in `reference`."""

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_U32 = NDArray[np.uint32]
_U64 = NDArray[np.uint64]
_Lengths = tuple[int, int, int, int, int]
_F64 = NDArray[np.float64]
_U8 = NDArray[np.uint8]

def normalize_rows(indptr: _I64, data: _F32, threads: int) -> _F32: ...
def rows_rise(indptr: _I64, indices: _I32) -> bool: ...
def top_k_rows(indptr: _I64, indices: _I32, data: _F32, k: int, threads: int) -> tuple[_I64, _I32, _F32]: ...
def label_centroids(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    label_indptr: _I64,
    label_rows: _I32,
    label_weights: _F32,
    threads: int,
) -> tuple[_I64, _I32, _F32]: ...
def rows_distinct(indptr: _I64, labels: _I32) -> bool: ...
def match_rows(true_indptr: _I64, true_labels: _I32, indptr: _I64, labels: _I32, threads: int) -> _U8: ...
def ranked_gains(
    indptr: _I64, labels: _I32, hits: _U8, weights: _F64, discounts: _F64, cutoffs: _I64, threads: int
) -> _F64: ...
def best_gains(
    true_indptr: _I64, true_labels: _I32, weights: _F64, discounts: _F64, cutoffs: _I64, threads: int
) -> _F64: ...
def parse_rows(
    text: NDArray[np.uint8], last: bool, max_rows: int, n_labels: int, n_features: int
) -> tuple[_I64, _I32, _I64, _I32, _F32, tuple[int, int, int]]: ...
def complex_rows(text: _U8, offsets: _I64, folds: _U32) -> _I64: ...
def count_terms(
    text: _U8, offsets: _I64, classes: _U8, folds: _U32, lengths: _Lengths, threads: int
) -> tuple[_U64, _I64]: ...
def merge_counts(
    left_keys: _U64, left_counts: _I64, right_keys: _U64, right_counts: _I64
) -> tuple[_U64, _I64]: ...
def build_vocabulary(keys: _U64) -> _U64: ...
def spell_terms(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    lengths: _Lengths,
    slots: _U64,
    known: _U8,
    char_mark: int,
    threads: int,
) -> tuple[_I32, _I64, _U8]: ...
def tfidf_rows(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    lengths: _Lengths,
    slots: _U64,
    idf: _F32,
    sublinear: bool,
    threads: int,
) -> tuple[_I64, _I32, _F32]: ...
