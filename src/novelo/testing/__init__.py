"""Doubles and generators for tests of programs that use Novelo. Strategies: `from novelo.testing import strategies`."""

from novelo.testing.scripted import ScriptedModel, ScriptEnded
from novelo.testing.strict import StrictProvider

__all__ = ["ScriptEnded", "ScriptedModel", "StrictProvider"]
