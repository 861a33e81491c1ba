"""Folders that cannot be written, and files that training does not need."""

import os
import re

import pytest
import tensorflow as tf

from deeplab.errors import OptionError
from deeplab.files import output_files


class TestRequireFolder:
    def test_one_that_is_there_and_one_that_could_be_made(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for path in (str(tmp_path), 'a', 'a/b/c', '.', '', str(tmp_path / 'a' / '..' / 'b')):
            output_files.require_folder(path, 'TrainOptions.train_logdir')
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize('below', ['', '/a', '/a/b'])
    def test_a_file_in_its_place_or_above(self, tmp_path, below):
        (tmp_path / 'file').write_text('mine')
        with pytest.raises(OptionError) as error:
            output_files.require_folder(f'{tmp_path}/file{below}', 'TrainOptions.train_logdir')
        message = str(error.value)
        assert message.startswith(f"train_logdir: the folder '{tmp_path}/file{below}' ")
        assert f"'{tmp_path}/file' is not a folder" in message

    def test_a_link_that_leads_nowhere(self, tmp_path):
        (tmp_path / 'link').symlink_to('nowhere')
        with pytest.raises(OptionError, match="link' is not a folder"):
            output_files.require_folder(str(tmp_path / 'link'), 'TrainOptions.train_logdir')

    @pytest.mark.parametrize('below', ['', '/a/b'])
    def test_read_only(self, tmp_path, monkeypatch, below):
        # For root nothing is, so that the system's answer is made up.
        monkeypatch.setattr(os, 'access', lambda path, mode: not (path == str(tmp_path) and mode & os.W_OK))
        with pytest.raises(
            OptionError, match=re.escape(f"'{tmp_path}{below}' is not writable: '{tmp_path}' is read-only")
        ):
            output_files.require_folder(f'{tmp_path}{below}', 'TrainOptions.profile_logdir')


@pytest.mark.parametrize(
    'failure',
    [
        OSError(28, 'No space left on device', 'a'),
        tf.errors.ResourceExhaustedError(None, None, 'No space left on device'),
        RuntimeError('No space left on device\n\tFailed to flush 2 events'),
    ],
)
class TestFailures:
    def test_are_reported_with_the_option(self, failure):
        with pytest.raises(OptionError) as error, output_files.writing_to('logs', 'TrainOptions.train_logdir'):
            raise failure
        assert str(error.value).startswith("train_logdir: 'logs' cannot be written: No space left on device")

    def test_switch_off_what_can_be_done_without(self, failure, caplog):
        calls = []

        def fail():
            calls.append(len(calls))
            raise failure

        output = output_files.Dispensable('logs/metrics.jsonl')
        output.attempt(lambda: None)
        assert output.is_on
        output.attempt(fail)
        output.attempt(fail)
        assert calls == [0]
        assert not output.is_on
        (message,) = caplog.messages
        assert message.startswith(
            "'logs/metrics.jsonl' cannot be written (No space left on device). Training continues"
        )


def test_other_errors_pass():
    with pytest.raises(KeyError):
        output_files.Dispensable('a').attempt(lambda: {}['b'])
