"""The error of this package."""


class EmbeddedPostgresError(RuntimeError):
    """The embedded server could not be found, started or stopped; the message says what to do."""
