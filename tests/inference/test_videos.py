"""Frames of videos, read by imageio."""

import numpy as np
import pytest

from deeplab.errors import DataError
from deeplab.inference import videos

pytest.importorskip('imageio_ffmpeg')
# imageio leaves the pipes of ffmpeg to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')]


def test_frames_of_a_video(tmp_path):
    from imageio import v2

    levels = [0, 60, 120, 180, 240]
    with v2.get_writer(tmp_path / 'clip.mp4', fps=5, macro_block_size=16) as writer:
        for level in levels:
            writer.append_data(np.full((48, 64, 3), level, np.uint8))
    frames = list(videos.frames(str(tmp_path / 'clip.mp4')))
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 5
    assert np.allclose([frame.mean() for frame in frames], levels, atol=5)


def test_what_is_no_video(tmp_path):
    (tmp_path / 'text.mp4').write_text('This is not a video.\n')
    for name in ('text.mp4', 'missing.mp4'):
        with pytest.raises(DataError, match='video|frames'):
            list(videos.frames(str(tmp_path / name)))
