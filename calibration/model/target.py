"""A decoder with its tokenizer and identity: from a folder, a GGUF file, or a shape alone."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from calibration.errors import CalibrationError
from calibration.gguf import dequantized_folder, quantization
from calibration.model.config import read_shape
from calibration.model.decoder import Decoder
from calibration.model.named_shapes import named_shape
from calibration.model.shape import ModelShape
from calibration.model.source import FileSource, RandomSource
from calibration.model.weights import collect_weights
from calibration.models import DTYPES
from calibration.weights import find_weights
from simcore.profile.schema import ModelIdentity


@dataclass(frozen=True)
class LoadedModel:
    """A decoder ready to run; one made from a shape has no tokenizer and knows no end token."""

    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase | None
    identity: ModelIdentity
    eos_token_ids: frozenset[int]


def load_decoder(path: Path | None, dtype: str, device: str) -> LoadedModel:
    """Load a Hugging Face folder or a GGUF file (None: the default target) offline.

    Raises CalibrationError for a model that the forward does not cover, damaged files, or a
    device that is not there.
    """
    numbers, place = _numbers(dtype), _place(device)
    weights = find_weights(path)
    folder = dequantized_folder(weights, numbers) if weights.is_gguf else weights.path
    shape = read_shape(folder)
    source = FileSource(folder, numbers, place)
    decoder = Decoder(shape, collect_weights(shape, source))
    source.check_all_read()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (ValueError, OSError, KeyError) as error:
        raise CalibrationError(
            f"'{weights.name}' has no tokenizer that can be read; expected its files "
            "beside the weights"
        ) from error
    stored_as = quantization(weights.path) if weights.is_gguf else "none"
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items())).encode()
    identity = _identity(
        shape,
        dtype,
        name=weights.name.removesuffix(f".{stored_as}"),
        revision=weights.sha256,
        quantization=stored_as,
        tokenizer=hashlib.sha256(vocabulary).hexdigest(),
    )
    return LoadedModel(decoder, tokenizer, identity, _end_tokens(folder, tokenizer))


def random_decoder(name: str, dtype: str, device: str, *, seed: int = 0) -> LoadedModel:
    """A published shape with random weights: its passes cost what the real model's cost.

    Raises CalibrationError for an unknown name or a device that is not there.
    """
    return decoder_of_shape(named_shape(name), name, dtype, device, seed=seed)


def decoder_of_shape(
    shape: ModelShape, name: str, dtype: str, device: str, *, seed: int = 0
) -> LoadedModel:
    """Random weights of any shape, named in the identity as what they are."""
    source = RandomSource(_numbers(dtype), _place(device), seed)
    decoder = Decoder(shape, collect_weights(shape, source))
    identity = _identity(
        shape,
        dtype,
        name=f"{name} (random weights)",
        revision=f"random, seed {seed}",
        quantization="none",
        tokenizer="none",
    )
    return LoadedModel(decoder, None, identity, frozenset())


def _identity(
    shape: ModelShape, dtype: str, *, name: str, revision: str, quantization: str, tokenizer: str
) -> ModelIdentity:
    element_bytes = DTYPES[dtype].itemsize
    return ModelIdentity(
        name=name,
        revision=revision,
        num_parameters=shape.num_parameters,
        dtype=dtype,
        quantization=quantization,
        tokenizer=tokenizer,
        vocab_size=shape.vocab_size,
        weight_bytes=shape.num_parameters * element_bytes,
        kv_bytes_per_token=shape.kv_bytes_per_token(element_bytes),
    )


def _end_tokens(folder: Path, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """What the publisher's generation settings, or else the config, end with; the tokenizer's."""
    if (folder / "generation_config.json").is_file():
        stated = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
    else:
        stated = AutoConfig.from_pretrained(folder, local_files_only=True).eos_token_id
    listed = stated if isinstance(stated, list) else [stated]
    return frozenset(int(t) for t in [*listed, tokenizer.eos_token_id] if t is not None)


def _numbers(dtype: str) -> torch.dtype:
    if dtype not in DTYPES:
        raise CalibrationError(f"dtype '{dtype}' is unknown; expected one of {sorted(DTYPES)}")
    return DTYPES[dtype]


def _place(device: str) -> torch.device:
    if device not in ("cpu", "cuda"):
        raise CalibrationError(f"device '{device}' is unknown; expected cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise CalibrationError("no CUDA device found; expected one; pass --device cpu")
    return torch.device(device)
