"""Options that tests share."""

import contextlib
import pathlib
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption('--goldens', metavar='DIR', help="another folder of the goldens' layout, or of pairs directly")


@pytest.fixture(scope='session')
def goldens_directory(pytestconfig: pytest.Config) -> pathlib.Path:
    """Where the goldens lie: --goldens, else the copy beside the tests."""
    given = pytestconfig.getoption('--goldens')
    return pathlib.Path(given) if given else pathlib.Path(__file__).parent / 'goldens'


@pytest.fixture
def toy_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `--model_variant=toy` known for one test."""
    from deeplab.core.backbones import registry
    from tests.toy_network import TOY

    registry.names()  # loads the real ones first
    monkeypatch.setattr(registry, '_backbones', dict(registry._backbones))
    registry.register(TOY)


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """Gives `full_disk(n)`, within which no file can be written beyond n bytes ("File too large")."""

    @contextlib.contextmanager
    def limited(size: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
