"""Options and fixtures that tests share, and settings that make small graphs fast."""

import contextlib
import gc
import os
import pathlib
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deeplab.options import DatasetOptions

_rewrites = True
_tests = 0
_TESTS_BETWEEN_FREEZES = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption('--goldens', metavar='DIR', help="another folder of the goldens' layout, or of pairs directly")


def pytest_configure() -> None:
    """Chooses the kernels that the programs use, and handles signals as a shell in the foreground has them.

    Jobs in the background, and nohup, ignore some signals.
    """
    os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')  # read once, when TensorFlow is imported
    for name in ('no_proxy', 'NO_PROXY'):  # the servers of tests are on this machine; gRPC would ask a proxy for them
        os.environ[name] = 'localhost,127.0.0.1'
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Lets the graphs of most tests run as they are built.

    TensorFlow's graph optimizers take a third of the time of a training of three steps, and show nothing of our code.
    Tests marked `rewritten` and every program that a test starts run with them.
    """
    gc.collect()
    gc.freeze()  # what was imported stays; looking through it again and again is a tenth of the time
    gc.set_threshold(20_000, 20, 50)
    if 'tensorflow' not in sys.modules:
        return
    from tensorflow.python.framework import graph_io

    from deeplab.core import sessions

    if hasattr(sessions.config, 'original'):
        return
    # The same text but for the order of attributes, in a tenth of the time.
    graph_io.text_format = types.SimpleNamespace(MessageToString=lambda message, **keywords: str(message))
    original = sessions.config

    def config(*arguments, **keywords):
        proto = original(*arguments, **keywords)
        proto.graph_options.rewrite_options.disable_meta_optimizer = not _rewrites
        return proto

    config.original = original
    sessions.config = config


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _rewrites, _tests
    _rewrites = item.get_closest_marker('rewritten') is not None
    _tests += 1
    if _tests % _TESTS_BETWEEN_FREEZES == 0:
        gc.collect()
        gc.freeze()  # what tests have imported since; each validation collects garbage, too
    return (yield)


@pytest.fixture(scope='session')
def goldens_directory(pytestconfig: pytest.Config) -> pathlib.Path:
    """Folder of the goldens: --goldens, else the copy beside the tests."""
    given = pytestconfig.getoption('--goldens')
    return pathlib.Path(given) if given else pathlib.Path(__file__).parent / 'goldens'


@pytest.fixture
def toy_network() -> Iterator[None]:
    """Makes `--model_variant=toy` known for one test."""
    from deeplab.registry import BACKBONES, register
    from tests.helpers.registries import changes_undone
    from tests.helpers.toy_network import TOY

    with changes_undone(BACKBONES):
        register(TOY)
        yield


@pytest.fixture(scope='module')
def tiny_network() -> Iterator[None]:
    """Makes `--model_variant=tiny` (`training_setup.TINY`) known for the tests of a file."""
    from deeplab.registry import BACKBONES, register
    from tests.helpers.registries import changes_undone
    from tests.helpers.training_setup import TINY

    with changes_undone(BACKBONES):
        register(TINY)
        yield


@pytest.fixture(scope='module')
def training(tmp_path_factory: pytest.TempPathFactory, tiny_network: None) -> pathlib.Path:
    """A folder as a training of the tiny network leaves it (`predictor_setup.write_training`)."""
    from tests.helpers import predictor_setup

    return predictor_setup.write_training(tmp_path_factory.mktemp('training'))


@pytest.fixture
def data(tmp_path: pathlib.Path) -> 'DatasetOptions':
    """The records of a tiny split (`training_setup.write_data`)."""
    from tests.helpers import training_setup

    return training_setup.write_data(tmp_path / 'records')


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
