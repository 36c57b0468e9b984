"""Random streams keyed by what they are for, so that order of work changes nobody's luck."""

import hashlib

import torch

MAX_SEED = 2**63 - 1  # of scenarios, too


def keyed_seed(seed: int, *keys: str | int) -> int:
    """A seed that depends on `seed` and `keys` only; 56 bits."""
    text = "/".join(str(key) for key in (seed, *keys))
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:7], "big")


def keyed_generator(device: torch.device, seed: int, *keys: str | int) -> torch.Generator:
    """A generator on `device` whose stream depends on `seed` and `keys` only."""
    return torch.Generator(device).manual_seed(keyed_seed(seed, *keys))
