from tests.cli.conftest import bare, shell

__all__ = ["bare", "shell"]
