"""What tests of the receiving side share: signed requests, and a server of their own."""

from tests.support.brokers.redis import redis_of_session, redis_server

__all__ = ["redis_of_session", "redis_server"]
