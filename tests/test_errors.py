"""The line of an error that names its cause."""

import resource

import pytest
import tensorflow as tf

from deeplab.core import checkpoints, sessions
from deeplab.errors import CheckpointError, reason_of

WHERE = "Graph execution error:\n\nDetected at node 'save' defined at (most recent call last):\n  File 'a.py'\n"


@pytest.mark.parametrize(
    ('message', 'reason'),
    [
        ('', 'DataLossError'),
        ('it is bad\n\t [[node]]', 'it is bad'),
        ('\n=====================\nUNAVAILABLE: gone\n=====================\n', 'UNAVAILABLE: gone'),
        (f"{WHERE}Node: 'save'\na/b.tempstate1; No space left on device\n\t [[{{{{node save}}}}]]", 'a/b.tempstate1; '),
        (
            f"{WHERE}Node: 'save'\n{WHERE}Node: 'other'\n2 root error(s) found.\n  (0) RESOURCE: full\n",
            'RESOURCE: full',
        ),
        ('Graph execution error:', 'Graph execution error:'),
    ],
)
def test_of_tensorflow(message, reason):
    assert reason_of(tf.errors.DataLossError(None, None, message)).startswith(reason)


def test_of_others():
    assert reason_of(PermissionError(13, 'Permission denied', 'a/file')) == 'Permission denied'
    assert reason_of(OSError()) == 'OSError'
    assert reason_of(ValueError('one\ntwo')) == 'one'


def test_a_checkpoint_that_finds_no_room_says_so(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tf.Graph().as_default():
        weights = tf.compat.v1.get_variable('weights', [1000, 100])
        writer = checkpoints.CheckpointWriter(str(tmp_path))
        with sessions.open_session() as running:
            running.run(weights.initializer)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            try:
                with pytest.raises(
                    CheckpointError, match=r'of step 3 cannot be written to .*; File too large\)\. Check that the disk'
                ) as error:
                    writer.save(running, 3)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert 'last checkpoint' not in str(error.value)  # there is none
