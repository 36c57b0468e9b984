"""Model files for the engine: a Hugging Face folder or a GGUF, written as a GGUF of one type.

llama.cpp rotates query and key by neighbouring pairs where Hugging Face rotates halves, so their
rows change places on the way. The engine never accepts a drafted end of text, which would lower
dialled acceptance: the end is a byte that no text holds, the model's own a token like others.
"""

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize
from safetensors.numpy import load_file

TYPES = {each.name: each for each in GGMLQuantizationType}
LAYER = "model.layers."
NO_TEXT_BYTE = "À"  # byte 0xC0 in the alphabet of byte-level BPE
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
}


def write_from_folder(folder: Path, tokenizer: Path, path: Path, kind: str = "F32") -> Path:
    """A Llama of a Hugging Face folder, with a byte-level BPE tokenizer.json, as a GGUF."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads = {
        "self_attn.q_proj.weight": config["num_attention_heads"],
        "self_attn.k_proj.weight": config["num_key_value_heads"],
    }
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    _add_tokenizer(writer, tokenizer)
    for name, values in load_file(folder / "model.safetensors").items():
        own, short = _names(name)
        rows = _interleave(values, heads[short]) if short in heads else values
        _add_tensor(writer, own, rows.astype(np.float32), kind)
    return _close(writer, path)


def rewrite(source: Path, path: Path, kind: str) -> Path:
    """The same model with its matrices in another type."""
    reader = GGUFReader(source)
    writer = GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        sub = field.types[1] if field.types[0] is GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        _add_tensor(writer, tensor.name, values, kind)
    return _close(writer, path)


def _names(name: str) -> tuple[str, str]:
    """(its name in a GGUF, its name within the layer)."""
    if not name.startswith(LAYER):
        return NAMES[name], name
    layer, short = name.removeprefix(LAYER).split(".", 1)
    return f"blk.{layer}.{NAMES[short]}", short


def _interleave(values: np.ndarray, num_heads: int) -> np.ndarray:
    halves = values.reshape(num_heads, 2, -1, values.shape[1])
    return halves.swapaxes(1, 2).reshape(values.shape)


def _add_tokenizer(writer: GGUFWriter, path: Path) -> None:
    held = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = held["model"]["vocab"] | {
        each["content"]: each["id"] for each in held["added_tokens"]
    }
    tokens = sorted(vocabulary, key=vocabulary.get)
    for each in held["added_tokens"]:  # a name that the engine does not take for an end
        tokens[each["id"]] = f"<|{each['id']}|>"
    merges = [m if isinstance(m, str) else " ".join(m) for m in held["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))  # all normal
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index(NO_TEXT_BYTE))
    writer.add_add_bos_token(False)


def _add_tensor(writer: GGUFWriter, name: str, values: np.ndarray, kind: str) -> None:
    if values.ndim == 1 or kind == "F32":
        writer.add_tensor(name, np.ascontiguousarray(values))
    else:
        data = quantize(values, TYPES[kind])
        writer.add_tensor(name, data, raw_dtype=TYPES[kind])


def _close(writer: GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
