"""Redis Streams: entries that the server has confirmed, and those that a consumer group gets.

The client's own retries are off: a retried XADD would add the entry twice, and what was sent on a lost connection has
an unknown fate. So connections are used directly: the commands of a batch are written at once, and each answer
settles its message.

`sending` is the destination and `consuming` the source. `link` is what both use: the connection.
"""

from .consuming import RedisConsumer
from .sending import RedisStreams

__all__ = ["RedisConsumer", "RedisStreams"]
