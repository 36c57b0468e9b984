"""GGUF weights, dequantized once into a Hugging Face folder that loads in a blink."""

import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from calibration.errors import CalibrationError
from calibration.weights import WeightFiles
from simcore.folders import cache_folder

FILE_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 32: "BF16"}
NOT_QUANTIZED = ("F32", "F16", "BF16")


def dequantized_folder(weights: WeightFiles, dtype: torch.dtype) -> Path:
    """The Hugging Face folder of `weights` in `dtype`, made on the first call, keyed by sha256."""
    folder = cache_folder() / "dequantized" / f"{weights.sha256[:16]}-{str(dtype).split('.')[-1]}"
    if not (folder / "config.json").is_file():
        _publish(weights, dtype, folder)
    return folder


def quantization(path: Path) -> str:
    """How the stored weights are coded, from the file's own metadata; 'none' if they are not."""
    from gguf import GGUFReader  # noqa: PLC0415 - reads the whole header; only where it is needed

    reader = GGUFReader(path)
    field = reader.fields.get("general.file_type")
    names = {tensor.tensor_type.name for tensor in reader.tensors}
    stored = FILE_TYPES.get(int(field.parts[field.data[0]][0])) if field else None
    label = stored or "+".join(sorted(names - {"F32"}))
    return "none" if label in NOT_QUANTIZED or not label else label


def _publish(weights: WeightFiles, dtype: torch.dtype, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        _convert(weights.path, dtype, draft)
        draft.replace(folder)  # atomic: a killed conversion leaves no half folder behind
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _convert(path: Path, dtype: torch.dtype, folder: Path) -> None:
    source = {"gguf_file": path.name, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(path.parent, **source)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, **source)
    except (ValueError, OSError) as error:
        raise CalibrationError(
            f"cannot read '{path.name}' as GGUF ({error}); expected an architecture that "
            "transformers supports; convert it to a Hugging Face folder"
        ) from error
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    loaded = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    state = {name: torch.as_tensor(tensor).to(dtype) for name, tensor in loaded.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    absent = [name for name in missing if not name.endswith("lm_head.weight")]
    if absent or unexpected or (missing and not config.tie_word_embeddings):
        raise CalibrationError(
            f"'{path.name}' lacks {missing[:3]} and has unknown {unexpected[:3]}; expected exactly "
            "the tensors of its architecture; convert it to a Hugging Face folder"
        )
    model.tie_weights()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
