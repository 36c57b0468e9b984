"""A causal language model on one device, with its tokenizer and identity."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from calibration.errors import CalibrationError
from calibration.gguf import dequantized_folder, quantization
from calibration.weights import WeightFiles, find_weights
from simcore.profile.schema import ModelIdentity

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


@dataclass(frozen=True)
class LanguageModel:
    """Weights, tokenizer and identity; S tokens of B equal-length requests at a time."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    identity: ModelIdentity
    eos_token_ids: frozenset[int]

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    def new_cache(self) -> DynamicCache:
        """An empty KV cache."""
        return DynamicCache(config=self.model.config)

    @torch.inference_mode()
    def forward(
        self, token_ids: torch.Tensor, cache: DynamicCache | None = None, keep_tokens: int = 0
    ) -> torch.Tensor:
        """Logits [B, K, V] of `token_ids` [B, S] after what `cache` holds; the cache grows by S.

        K = `keep_tokens` last positions, or all S where it is 0.
        """
        output = self.model(
            input_ids=token_ids.to(self.device),
            cache=cache,
            use_cache=cache is not None,
            logits_to_keep=keep_tokens,
        )
        logits: torch.Tensor = output.logits  # [B, K, V]
        return logits


def load_model(path: Path | None, dtype: str, device: str) -> LanguageModel:
    """Load a Hugging Face folder or GGUF file (None: the default target) offline."""
    if dtype not in DTYPES:
        raise CalibrationError(f"dtype '{dtype}' is unknown; expected one of {sorted(DTYPES)}")
    if device not in ("cpu", "cuda"):
        raise CalibrationError(f"device '{device}' is unknown; expected cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise CalibrationError("no CUDA device found; expected one; pass --device cpu")
    transformers_logging.disable_progress_bar()
    weights = find_weights(path)
    folder = dequantized_folder(weights, DTYPES[dtype]) if weights.is_gguf else weights.path
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[dtype], attn_implementation="sdpa", local_files_only=True
        )
    except (ValueError, OSError, KeyError) as error:
        first_line = str(error).splitlines()[0]
        raise CalibrationError(
            f"cannot load '{weights.name}' ({first_line}); expected a causal language model with "
            "its tokenizer in the same folder"
        ) from error
    model = model.to(device).eval().requires_grad_(requires_grad=False)
    model.get_output_embeddings().register_forward_pre_hook(_packed_input)
    return LanguageModel(
        model, tokenizer, _identify(model, tokenizer, weights, dtype), _eos(model, tokenizer)
    )


def _packed_input(
    module: torch.nn.Module, arguments: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """The head's input copied into packed strides.

    The last positions are a strided slice of all hidden states, and bfloat16 matrix products on
    the CPU take ten times as long on such input, even where torch calls it contiguous.
    """
    del module
    states, *others = arguments
    return (states.new_empty(states.shape).copy_(states), *others)


def kv_bytes_per_token(model: PreTrainedModel) -> int:
    """Keys and values of all layers for one token, in the model's dtype."""
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    element_bytes = torch.empty(0, dtype=model.dtype).element_size()
    return int(2 * config.num_hidden_layers * heads * head_dim * element_bytes)


def _identify(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, weights: WeightFiles, dtype: str
) -> ModelIdentity:
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items())).encode()
    parameters = list(model.parameters())  # tied weights are counted once
    stored_as = quantization(weights.path) if weights.is_gguf else "none"
    return ModelIdentity(
        name=weights.name.removesuffix(f".{stored_as}"),
        revision=weights.sha256,
        num_parameters=sum(tensor.numel() for tensor in parameters),
        dtype=dtype,
        quantization=stored_as,
        tokenizer=hashlib.sha256(vocabulary).hexdigest(),
        vocab_size=int(model.config.vocab_size),
        weight_bytes=sum(tensor.numel() * tensor.element_size() for tensor in parameters),
        kv_bytes_per_token=kv_bytes_per_token(model),
    )


def _eos(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    found = {int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None}
    return frozenset(found)
