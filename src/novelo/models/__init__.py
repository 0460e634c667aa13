"""Models: the seam (`base`), then one file a provider. Importing this loads no provider's SDK."""

from novelo.asking import ModelReply, ModelRequest
from novelo.models.base import (
    Assembly,
    Model,
    ModelDelta,
    ToolCallDelta,
    acomplete,
    adrive,
    astream,
    collect,
    drive,
    stream,
)
from novelo.models.env import load_environment
from novelo.models.failures import failure, is_overflow

__all__ = [
    "Assembly",
    "Model",
    "ModelDelta",
    "ModelReply",
    "ModelRequest",
    "ToolCallDelta",
    "acomplete",
    "adrive",
    "astream",
    "collect",
    "drive",
    "failure",
    "is_overflow",
    "load_environment",
    "stream",
]
