"""Where tensors come from: safetensors files, or a random stream for runs that only cost."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from calibration.errors import CalibrationError

NOT_NEEDED = ("rotary_emb.inv_freq", "lm_head.weight")  # derived; stored beside a tied embedding


class FileSource:
    """Tensors of a Hugging Face folder, one file or sharded, in `dtype` on `device`."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._folder, self._dtype, self._device = folder, dtype, device
        self._files: dict[str, Path] = {}
        for path in sorted(folder.glob("*.safetensors")):
            with self._open(path) as file:
                self._files |= dict.fromkeys(file.keys(), path)
        self._unread = set(self._files)

    def __call__(self, name: str, size: tuple[int, ...]) -> torch.Tensor:
        """The tensor `name`, which must have this `size`."""
        if name not in self._files:
            raise CalibrationError(
                f"'{self._folder.name}' lacks the tensor {name}; expected every tensor of its "
                "config.json in its *.safetensors files; get the missing shard"
            )
        with self._open(self._files[name]) as file:
            tensor: torch.Tensor = file.get_tensor(name)
        if tuple(tensor.shape) != size:
            raise CalibrationError(
                f"tensor {name} of '{self._folder.name}' is {tuple(tensor.shape)}; its config.json "
                f"says {size}"
            )
        self._unread.discard(name)
        return tensor.to(self._device, self._dtype)

    def check_all_read(self) -> None:
        """Refuse tensors that the forward would leave out, such as an adapter's."""
        unknown = sorted(name for name in self._unread if not name.endswith(NOT_NEEDED))
        if unknown:
            raise CalibrationError(
                f"'{self._folder.name}' holds {len(unknown)} tensors that its config.json does not "
                f"explain, such as {unknown[0]}; expected a plain decoder without adapters or "
                "quantized weights"
            )

    def _open(self, path: Path) -> safe_open:
        try:
            return safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise CalibrationError(
                f"cannot read '{path.name}' ({error}); expected a whole safetensors file"
            ) from error


class RandomSource:
    """Seeded normal matrices, zero biases and unit norms: the cost of a model, not its text."""

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int) -> None:
        self._dtype, self._device = dtype, device
        self._generator = torch.Generator(device).manual_seed(seed)

    def __call__(self, name: str, size: tuple[int, ...]) -> torch.Tensor:
        """A tensor of this `size`; rows keep the scale of what they read."""
        tensor = torch.empty(size, dtype=self._dtype, device=self._device)
        if name.endswith("bias"):
            return tensor.zero_()
        if len(size) == 1:
            return tensor.fill_(1.0)
        return tensor.normal_(0.0, size[-1] ** -0.5, generator=self._generator)
