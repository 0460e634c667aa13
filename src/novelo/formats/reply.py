"""What a model call gave, whatever made the call: the message, its usage, why it ended, who wrote it.

`read_reply` takes a whole answer, `StreamReader` one that comes in chunks, `read_usage` the report of its tokens alone.
"""

from novelo.formats._reply import Reply, read_reply
from novelo.formats._stream import StreamReader
from novelo.formats._usage import Pass, context_tokens, long_writes, passes, read_usage, sound

__all__ = [
    "Pass",
    "Reply",
    "StreamReader",
    "context_tokens",
    "long_writes",
    "passes",
    "read_reply",
    "read_usage",
    "sound",
]
