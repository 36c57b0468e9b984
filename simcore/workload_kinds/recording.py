"""Which requests of a recorded file a workload takes."""

from typing import Literal

from pydantic import Field

from simcore.profile.schema import Frozen

FileFormat = Literal["auto", "azure", "mooncake", "burstgpt", "vllm_bench", "sglang_bench", "csv"]


class Recording(Frozen):
    """Some requests of a recorded file, in its order."""

    path: str = Field(min_length=1, description="relative to the scenario file")
    format: FileFormat = Field("auto", description="auto: told by its columns or keys")
    start_s: float = Field(
        0.0, ge=0.0, description="begin this long after the file's first request"
    )
    max_requests: int | None = Field(None, ge=1, description="take no more than these")
