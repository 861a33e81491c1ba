"""Fixtures of downloads."""

import pytest

from tests.helpers import web_server


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch):
    """No proxy, mirror or cache of the user's."""
    monkeypatch.setenv('no_proxy', '127.0.0.1')
    for name in ('DEEPLAB_MIRROR', 'DEEPLAB_CACHE'):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope='module')
def web():
    """Gives (pages by path, address of the server)."""
    pages = {}
    with web_server.serving(pages) as address:
        yield pages, address
