"""Fixtures of pytest. Pytest finds them by the entry point of the package."""

import pytest

from . import TestServer


@pytest.fixture
def pintle_server():
    """A fresh server for one test."""
    with TestServer() as server:
        yield server


@pytest.fixture(scope="session")
def pintle_session_server():
    """One server for all tests of the run."""
    with TestServer() as server:
        yield server
