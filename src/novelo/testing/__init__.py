"""Doubles and generators for tests of programs that use Novelo. Strategies: `from novelo.testing import strategies`."""

from novelo.testing.scripted import ScriptEnded, ScriptedModel

__all__ = ["ScriptEnded", "ScriptedModel"]
