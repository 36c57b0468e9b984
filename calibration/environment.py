"""What must be set in the process before torch and transformers are imported.

GOMP_SPINCOUNT: OpenMP threads that spin beside another job make the slowest steps tens of times
slower than the median. HF_HUB_OFFLINE: models come from disk only, never from a hub.
"""

import os

VARIABLES = {
    "GOMP_SPINCOUNT": "1000",
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


def prepare_environment() -> None:
    """Set the variables that the user has not set; call before the first torch import."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
