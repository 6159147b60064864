"""Types of the native kernels; what each one computes is said in `reference`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_Lengths = tuple[int, int, int, int, int]
_U64 = NDArray[np.uint64]
_U32 = NDArray[np.uint32]
_F64 = NDArray[np.float64]
_U8 = NDArray[np.uint8]

def normalize_rows(indptr: _I64, data: _F32, threads: int) -> _F32: ...
def rows_valid(indptr: _I64, indices: _I32, data: _F32, n_cols: int) -> bool: ...
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
    max_features: int,
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
def merge_lists(
    labels: _I32, scores: _F32, found: _I32, n_lists: int, k: int, threads: int
) -> tuple[_I32, _F32, _I32]: ...
def place_labels(
    label_ptr: _I64,
    label_rows: _I32,
    first_leaf: _I32,
    matched: _I32,
    n_places: int,
    width: int,
    n_nodes: int,
    brings_all: bool,
    price: float,
    growth: float,
    most_work: float,
    least_gain: int,
    max_copies: int,
) -> tuple[_I32, _I32]: ...
def accept_pairs(labels: _I32, leaves: _I32, copies: int, n_labels: int, capacity: _I64) -> _U8: ...
def calibrate(scores: _F32, as_odds: bool, x: _F64, y: _F64) -> _F32: ...
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
def bag_rows(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    slots: _U64,
    n_words: int,
    buckets: _I32,
    longest: int,
    n_features: int,
    counts_unknown: bool,
    threads: int,
) -> tuple[_I64, _I32, _F32]: ...
def word_rows(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    slots: _U64,
    n_words: int,
    longest: int,
    threads: int,
) -> tuple[_I64, _I32]: ...
def softmax_epoch(
    inputs: _F32,
    outputs: _F32,
    dimension: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    label_indptr: _I64,
    labels: _I32,
    path_ptr: _I64,
    path_steps: _I32,
    order: _I32,
    first_rate: float,
    last_rate: float,
    threads: int,
) -> None: ...
def softmax_search(
    model: tuple[_F32, _F32, _I32, _I32, _I32, _I32, _I32],
    dimension: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    k: int,
    node_allowed: _U8,
    threads: int,
) -> tuple[_I32, _F32, _I32, _I32]: ...
def softmax_scores(
    model: tuple[_F32, _F32, _I32, _I32, _I32, _I32, _I32],
    dimension: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    leaf_indptr: _I64,
    leaves: _I32,
    threads: int,
) -> _F32: ...
def impute_groups(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    group_indptr: _I64,
    group_rows: _I32,
    label_indptr: _I64,
    label_groups: _I32,
    label_starts: _I32,
    background: _F32,
    steps: int,
    step_size: float,
    margin: float,
    threads: int,
) -> tuple[_I64, _I32, _F32, _F32]: ...
def embed_groups(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    group_indptr: _I64,
    group_rows: _I32,
    label_indptr: _I64,
    label_groups: _I32,
    label_starts: _I32,
    background: _F32,
    steps: int,
    step_size: float,
    threads: int,
) -> tuple[_I64, _I32, _F32]: ...
def split_labels(
    indptr: _I64,
    indices: _I32,
    data: _F32,
    n_features: int,
    frequency: NDArray[np.float64],
    context_frequency: NDArray[np.float64],
    lam: float,
    gamma: float,
    direct: bool,
    max_leaf_size: int,
    max_iterations: int,
    tolerance: float,
    seed: int,
    threads: int,
) -> tuple[_I32, _I64, _I64, _I32]: ...
def node_rows(
    indptr: _I64,
    rows: _I32,
    weights: _F32,
    n_rows: int,
    parent: _I32,
    label_ptr: _I32,
    labels: _I32,
    threads: int,
) -> tuple[_I64, _I32, _F32]: ...
def train_blocks(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    row_begin: _I64,
    row_end: _I64,
    rows: _I32,
    output_ptr: _I64,
    positive_begin: _I64,
    positive_end: _I64,
    positives: _I32,
    positive_weights: _F32,
    row_weights: _F32,
    seeds: _I64,
    loss: int,
    cost: float,
    bias: float,
    tolerance: float,
    max_sweeps: int,
    threshold: float,
    weight_type: int,
    seed: int,
    threads: int,
) -> tuple[_I64, _U32, _I64, _I64, _U8, _U8, _I64, _U8, _U8, _F32, _F32, _I64]: ...
def match_unseen(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    node_ptr: _I64,
    rows: _I32,
    positive_weights: _F32,
    row_weights: _F32,
    child_ptr: _I32,
    second_half: _U8,
    width: int,
    followed: int,
    link_power: int,
    loss: int,
    cost: float,
    bias: float,
    tolerance: float,
    max_sweeps: int,
    seed: int,
    threads: int,
) -> _I32: ...
def search(
    model: tuple[NDArray[Any], ...],
    n_labels: int,
    max_outputs: int,
    link_power: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    exact: bool,
    k: int,
    width: int,
    max_nodes: int,
    copies: int,
    label_allowed: _U8,
    node_allowed: _U8,
    threads: int,
) -> tuple[_I32, _F32, _I32, _I32, _F32]: ...
def beam_leaves(
    model: tuple[NDArray[Any], ...],
    n_labels: int,
    max_outputs: int,
    link_power: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    width: int,
    threads: int,
) -> tuple[_I32, _F32]: ...
def margins(
    model: tuple[NDArray[Any], ...],
    n_labels: int,
    max_outputs: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    ptr: _I64,
    nodes: _I32,
    outputs: _I32,
    threads: int,
) -> _F32: ...
def build_index(indptr: _I64, indices: _I32, data: _F32, n_features: int) -> tuple[_I64, _I32, _U8, _F32]: ...
def nearest_rows(
    feature_ptr: _I64,
    rows: _I32,
    codes: _U8,
    scale: _F32,
    n_rows: int,
    dead: _U8,
    indptr: _I64,
    indices: _I32,
    data: _F32,
    k: int,
    threads: int,
) -> tuple[_I32, _F32, _I32]: ...
def vote_labels(
    rows: _I32,
    weights: _F32,
    found: _I32,
    label_ptr: _I64,
    labels: _I32,
    blocked: _U8,
    k: int,
    threads: int,
) -> tuple[_I32, _F32, _I32]: ...
def prefix_words(
    name_ptr: _I64, name_words: _I32, weight: _F32, min_coverage: float
) -> tuple[_I64, _I32]: ...
def match_names(
    name_ptr: _I64,
    name_words: _I32,
    weight: _F32,
    word_ptr: _I64,
    by_word: _I32,
    min_coverage: float,
    indptr: _I64,
    words: _I32,
    threads: int,
) -> tuple[_I64, _I32, _F32, _I32, _I32, _F32]: ...
