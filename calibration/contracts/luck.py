"""The chances that a verification takes, from one request's own generator.

Contracts ask for coins and draws only, so that an enumeration can stand in for the generator and
give their law exactly.
"""

from typing import Protocol

import torch

from calibration.sampling import draw


class Luck(Protocol):
    """Where a contract's coins and draws come from."""

    def accepts(self, probability: float) -> bool:
        """True with this probability: never at 0, always at 1."""
        ...

    def draw(self, weights: torch.Tensor) -> int:
        """A token of `weights` [V], which need not sum to 1; never one without mass."""
        ...


class GeneratorLuck:
    """Coins and draws of a torch generator; `num_coins` uniforms are taken at the first coin."""

    def __init__(self, generator: torch.Generator, num_coins: int) -> None:
        self._generator = generator
        self._num_coins = max(num_coins, 1)
        self._uniforms: list[float] = []

    def accepts(self, probability: float) -> bool:
        """A uniform of [0, 1) below the probability."""
        if not self._uniforms:  # one transfer from the device for a whole verification
            self._uniforms = torch.rand(
                self._num_coins,
                generator=self._generator,
                device=self._generator.device,
                dtype=torch.float64,
            ).tolist()
        return self._uniforms.pop() < probability

    def draw(self, weights: torch.Tensor) -> int:
        """One token by the generator."""
        return draw(weights, self._generator)
