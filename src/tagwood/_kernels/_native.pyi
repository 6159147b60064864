"""Types of the native kernels; what each one computes is said in `reference`."""

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]

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
