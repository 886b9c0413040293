"""The sound run of the chaos tests."""

from tests.chaos.conftest import sound

__all__ = ["sound"]
