"""What a model call gave, whatever made the call: the message, its usage, why it ended, who wrote it.

`read_reply` takes a whole answer, `StreamReader` one that comes in chunks.
"""

from novelo.formats._reply import Reply, read_reply
from novelo.formats._stream import StreamReader

__all__ = ["Reply", "StreamReader", "read_reply"]
