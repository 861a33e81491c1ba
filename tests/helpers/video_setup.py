"""A stand-in for ffmpeg, which writes how many frames a video has."""

import sys
import types

from deeplab.inference import videos


def replace_ffmpeg(monkeypatch):
    """Replaces the encoder and what is known of videos; returns a list, to which each frame adds its first pixel."""
    values = []

    def write_frames(path, size, **settings):
        width, height = size
        assert width % 2 == height % 2 == 0
        try:
            while (frame := (yield)) is not None:
                assert frame.shape == (height, width, 3)
                values.append(int(frame[0, 0, 0]))
        finally:
            with open(path, 'w') as file:
                file.write(str(len(values)))

    monkeypatch.setitem(sys.modules, 'imageio_ffmpeg', types.SimpleNamespace(write_frames=write_frames))
    monkeypatch.setattr(videos, 'facts_of', lambda path: videos.VideoFacts(10.0, False))
    return values
