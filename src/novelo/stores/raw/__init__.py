"""Rows as they are: what is copied from one database to another below the level of threads and messages.

columns.py    which tables and columns there are, and what a seal covers
base.py       what an engine must be able to do: `Source`, `Target`
copying.py    rows that differ are replaced, batch by batch, and read back
report.py     what came of it
"""

from novelo.stores.raw.base import Source, Target
from novelo.stores.raw.copying import Checked, copy_rows
from novelo.stores.raw.report import CopyReport, Progress

__all__ = ["Checked", "CopyReport", "Progress", "Source", "Target", "copy_rows"]
