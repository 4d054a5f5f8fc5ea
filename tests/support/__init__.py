"""What several rooms' tests share; fixtures that use it are in ``tests/conftest.py``."""
