"""The stored form of a `PrototypeModel`: encoder, prototypes, prototype network, as numbers and settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tagwood._check import check_choice, check_float
from tagwood.errors import InputError
from tagwood.neural.centroids import CENTROIDS
from tagwood.neural.label_index import LabelIndex
from tagwood.neural.prototype_loss import PrototypeLoss
from tagwood.neural.prototype_network import Prototype, PrototypeNetwork
from tagwood.neural.prototype_settings import Batching
from tagwood.neural.text_encoder import TextEncoder
from tagwood.neural.training import Training
from tagwood.storage import State

if TYPE_CHECKING:
    from tagwood.neural.prototype import PrototypeModel

_PARTS: dict[str, type[Any]] = {
    "prototype": Prototype,
    "loss": PrototypeLoss,
    "batches": Batching,
    "training": Training,
}


def model_state(model: PrototypeModel) -> State:
    """Return everything needed to rebuild a fitted model."""
    init = model.get_params()
    for name in _PARTS:
        init[name] = None if init[name] is None else asdict(init[name])
    if isinstance(model.encoder, TextEncoder):
        init["encoder"] = {**model.encoder.get_params(), "encoder": str(model.encoder.encoder)}
    network = {} if model.network_ is None else model.network_.state_dict()
    return State(
        "PrototypeModel",
        params={
            "init": init,
            "centroids": model.centroids_,
            "trials": model.trials_,
            "threshold": model.threshold_,
            "feed_forward": 0 if model.network_ is None else model.network_.widen.out_features,
        },
        arrays={
            name.replace(".", "_"): np.ascontiguousarray(value.cpu().numpy())
            for name, value in network.items()
        },
        parts={"encoder": model.encoder_.state(), "index": model.index_.state()},
    )


def learned_from_state(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return constructor arguments and learned attributes."""
    init = dict(state.param("init", dict))
    for name, kind in _PARTS.items():
        init[name] = None if init.get(name) is None else kind(**init[name])
    if isinstance(init.get("encoder"), dict):
        init["encoder"] = TextEncoder(**init["encoder"])
    encoder, index = TextEncoder.from_state(state.part("encoder")), LabelIndex.from_state(state.part("index"))
    if index.vectors.shape[1] != encoder.n_features:
        raise InputError(
            f"stored prototypes must have the {encoder.n_features} numbers of the encoder",
            given=str(index.vectors.shape[1]),
        )
    learned = {
        "encoder_": encoder,
        "index_": index,
        "network_": _network(state, encoder.n_features),
        "centroids_": check_choice(state.param("centroids", str), "centroids", CENTROIDS),
        "trials_": dict(state.param("trials", dict)),
        "threshold_": check_float(state.param("threshold", float), "threshold"),
        "n_labels_": len(index),
        "settings_": None,
        "history_": None,
    }
    return init, learned


def _network(state: State, dimension: int) -> PrototypeNetwork | None:
    width = state.param("feed_forward", int)
    if width == 0:
        return None
    network = PrototypeNetwork(dimension, width)
    network.load_state_dict(
        {
            name: torch.from_numpy(
                np.array(state.array(name.replace(".", "_"), np.float32, tuple(value.shape)))
            )
            for name, value in network.state_dict().items()
        }
    )
    return network.eval()
