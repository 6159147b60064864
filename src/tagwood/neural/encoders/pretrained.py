"""Encoders of any kind that the transformers library knows. In: a folder of its files. Out: an `EncoderModule`.

Only files of the folder are read: no download, no code of the folder is run, weights as safetensors only. Networks of
BERT's kind do not need this (see `bert_weights`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tagwood.errors import DataError, InputError, MissingExtraError
from tagwood.neural.encoders.modules import MAX_TOKENS, EncoderModule
from tagwood.neural.encoders.tokens import TokenRows

try:
    import transformers
except ImportError as error:
    raise MissingExtraError("an encoder with weights of others", extra="neural") from error


class PretrainedModule(EncoderModule):
    """A mean-pooled transformer of the transformers library."""

    def __init__(self, body: nn.Module) -> None:
        config: Any = body.config
        super().__init__(int(config.hidden_size), getattr(config, "max_position_embeddings", None))
        if getattr(body, "pooler", None) is not None:
            body.pooler = None  # type: ignore[assignment]  # its weights would get no gradient
        self.body = body

    @classmethod
    def read(cls, folder: Path) -> PretrainedModule:
        """Read configuration and weights of a folder."""
        if not (folder / "config.json").is_file():
            raise DataError(
                "an encoder folder must hold config.json, model.safetensors and tokenizer.json", path=folder
            )
        try:
            with _quiet():
                body = transformers.AutoModel.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
                )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            words = str(error).splitlines()[0][:160]
            raise DataError(f"the weights cannot be read: {words}", path=folder) from error
        return cls(body)

    @classmethod
    def of_config(cls, text: str) -> PretrainedModule:
        """Return a module with random weights from the JSON text of a configuration."""
        values: dict[str, Any] = json.loads(text)
        kind = values.pop("model_type", None)
        if kind not in transformers.CONFIG_MAPPING:
            raise InputError("the encoder must be of a kind that transformers knows", given=repr(kind))
        with _quiet():
            config = transformers.AutoConfig.for_model(kind, **values)
            make: Any = transformers.AutoModel.from_config
            return cls(make(config, dtype=torch.float32))

    def config(self) -> str:
        """Return the configuration as JSON text."""
        return str(self.body.config.to_json_string(use_diff=True))  # type: ignore[union-attr, operator]

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable; rows of like length together, so that padding is rare."""
        device = next(self.parameters()).device
        zeros = torch.zeros(len(tokens), self.dimension, device=device)
        places, found = [], []
        for rows in tokens.chunks(MAX_TOKENS):
            cells, real = tokens.padded(rows)
            ids = torch.from_numpy(cells).to(device)
            mask = torch.ones_like(ids) if real is None else torch.from_numpy(real).to(device).long()
            states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
            found.append(mean_pool(states, mask))
            places.append(torch.from_numpy(rows))
        if not found:
            return zeros
        return zeros.index_copy(0, torch.cat(places).to(device), torch.cat(found).float())


def mean_pool(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean of (n, length, d) states where `mask` is 1, not 0.

    Examples
    --------
    >>> mean_pool(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[1, 0]])).tolist()
    [[1.0]]
    """
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's progress bars and advice off the terminal."""
    log: Any = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
