"""Videos that predict writes, and cameras that it reads, with stand-ins for ffmpeg; slow ones with ffmpeg itself."""

import gc
import json
import os
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
from absl import logging

from deeplab import cli
from deeplab.errors import DataError, OptionError
from deeplab.inference import inputs, video_files, videos
from deeplab.inference.inputs import InputFile
from deeplab.options import PredictOptions
from deeplab.programs import predict
from deeplab.system import packages
from tests.helpers import predictor_setup, video_setup

pytestmark = [
    pytest.mark.usefixtures('tiny_network'),
    # imageio leaves the pipes of ffmpeg to the garbage collector.
    pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning'),
]
needs_ffmpeg = pytest.mark.skipif(bool(packages.missing(['imageio_ffmpeg'])), reason='imageio_ffmpeg is not installed')


@pytest.fixture
def written(monkeypatch):
    """The first pixel of each frame that a stand-in for the encoder gets; its files say how many frames they have."""
    return video_setup.replace_ffmpeg(monkeypatch)


@pytest.fixture(autouse=True)
def _close_pipes():
    """Collects the pipes here, where they are allowed, and not in a later test."""
    yield
    gc.collect()


def picture(value, height=5, width=7):
    return np.full((height, width, 3), value, np.uint8)


def test_frames_are_written_in_order_and_the_file_gets_its_name_at_the_end(tmp_path, written):
    video = video_files._Video(str(tmp_path / 'clip.mp4'), 10.0, is_live=False)
    for number in (1, 0, 3, 4, 2):
        video.put(number, picture(10 * number))
    assert written == [0, 10, 20, 30, 40]
    video.put(5, picture(50, 6, 9))  # another size than the first one
    assert not os.path.exists(video.path)
    video.end(6)
    assert (tmp_path / 'clip.mp4').read_text() == '6'
    assert os.listdir(tmp_path) == ['clip.mp4'] and video.is_complete
    video.finish()
    video.abort()
    assert os.listdir(tmp_path) == ['clip.mp4']


def test_frames_after_one_that_is_missing(tmp_path, written):
    video = video_files._Video(str(tmp_path / 'clip.mp4'), 10.0, is_live=False)
    for number in range(1, 100):
        video.put(number, picture(number))
    assert written == list(range(1, 100))  # not kept in memory
    few = video_files._Video(str(tmp_path / 'few.mp4'), 10.0, is_live=False)
    few.put(2, picture(202))
    few.put(1, picture(201))
    few.end(3)
    few.finish()
    assert written[-2:] == [201, 202] and (few.frames, few.is_complete) == (2, True)


def test_a_second_video_leaves_the_first_one_that_is_not_complete(tmp_path, written):
    left = tmp_path / 'video/c.mp4.1234567890.partial'
    left.parent.mkdir()
    left.write_text('of a killed run')
    files = video_files.VideoFiles(PredictOptions(('.',), str(tmp_path), checkpoint_dir='logs'))
    for name in 'ab':
        video = files._video_of(InputFile(f'{name}.mp4', name, is_video=True))
        video.put(0, picture(1))
        video.put(1, picture(2))
    assert not left.exists()
    for name in 'ab':
        files.end(InputFile(f'{name}.mp4', name, is_video=True), 2)
    files.finish()
    assert sorted(os.listdir(left.parent)) == ['a.mp4', 'b.mp4']


def test_an_unfinished_video_is_removed(tmp_path, written):
    video = video_files._Video(str(tmp_path / 'clip.mp4'), 10.0, is_live=False)
    video.abort()
    video.put(0, picture(1))
    video.abort()
    assert os.listdir(tmp_path) == []


def test_frames_of_a_camera_last_until_the_next_one(tmp_path, written, monkeypatch):
    times = iter([100.0, 100.0, 100.2, 100.21, 101.0])  # the start, then each frame
    monkeypatch.setattr(video_files.time, 'monotonic', lambda: next(times))
    video = video_files._Video(str(tmp_path / 'camera.mp4'), 10.0, is_live=True)
    for number in range(4):
        video.put(number, picture(number))
    assert written == [0, 1, 1, *[3] * 8]  # the third came too early for a frame of its own
    assert video.frames == 11  # 1 s at 10 frames a second, and the first one


def test_a_video_that_cannot_be_completed(tmp_path, written, monkeypatch):
    def broken(path):
        raise DataError('it cannot be read as a video (moov atom not found)')

    monkeypatch.setattr(videos, 'facts_of', broken)
    video = video_files._Video(str(tmp_path / 'clip.mp4'), 10.0, is_live=False)
    video.put(0, picture(1))
    with pytest.raises(DataError, match=r"Cannot write '.*clip\.mp4': .*moov atom.* disk may be full"):
        video.finish()
    video.abort()
    assert os.listdir(tmp_path) == []


# --- Cameras and streams ----------------------------------------------------------------------------------------------


def source(monkeypatch, read):
    """Makes a function the reader of all cameras and streams; returns what it was called with."""
    calls = []

    def read_frames(path, input_params):
        calls.append((path, input_params))
        return read()

    monkeypatch.setitem(sys.modules, 'imageio_ffmpeg', types.SimpleNamespace(read_frames=read_frames))
    return calls


def content(value):
    return picture(value, 4, 6).tobytes()


def test_a_camera_gives_its_newest_frame_until_it_is_stopped(monkeypatch):
    shown, is_closed = threading.Semaphore(0), []

    def read():
        try:
            yield {'size': (6, 4)}
            for value in range(1, 200):
                yield content(value)
                if value in (3, 4):
                    shown.acquire()  # until the frames before are taken, or too late
        finally:
            is_closed.append(True)

    calls = source(monkeypatch, read)
    stop = threading.Event()
    frames = videos.live_frames('camera:1', stop)
    time.sleep(0.1)
    first = next(frames)
    assert first.shape == (4, 6, 3)
    stop.set()
    shown.release()
    shown.release()
    assert list(frames) == []
    assert is_closed == [True]
    assert first[0, 0, 0] in (1, 2, 3)
    if sys.platform.startswith('linux'):
        assert calls == [('/dev/video1', ['-f', 'v4l2'])]


def test_older_frames_are_dropped(monkeypatch):
    is_read = threading.Event()

    def read():
        yield {'size': (6, 4)}
        for value in (1, 2, 3):
            yield content(value)
        is_read.set()

    source(monkeypatch, read)
    frames = videos.live_frames('udp://127.0.0.1:9', threading.Event())
    newest = videos._Newest(read())
    newest.start()
    assert is_read.wait(5)
    newest.join(5)
    assert newest.taken(threading.Event())[0, 0, 0] == 3
    assert newest.taken(threading.Event()) is None
    assert [frame[0, 0, 0] for frame in frames][-1] == 3


def test_a_camera_that_sends_nothing_can_be_stopped(monkeypatch):
    silent = threading.Event()

    def read():
        yield {'size': (6, 4)}
        silent.wait(10)

    source(monkeypatch, read)
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    monkeypatch.setattr(videos._Newest, 'join', lambda self, seconds: None)  # does not wait for it
    assert list(videos.live_frames('camera:0', stop)) == []
    silent.set()


def test_a_stream_that_cannot_be_opened_keeps_its_password(monkeypatch):
    def read():
        raise OSError('Could not load meta information\nrtsp://me:secret@door/1: Connection refused')
        yield

    calls = source(monkeypatch, read)
    with pytest.raises(DataError, match=r'it cannot be opened \(rtsp://door/1: Connection refused\)'):
        list(videos.live_frames('rtsp://me:secret@door/1', threading.Event()))
    assert calls == [('rtsp://me:secret@door/1', ['-rtsp_transport', 'tcp'])]


def test_a_stream_that_fails_later_ends(monkeypatch, caplog):
    def read():
        yield {'size': (6, 4)}
        yield content(1)
        raise RuntimeError('Could not read frame 2')

    source(monkeypatch, read)
    assert len(list(videos.live_frames('udp://127.0.0.1:9', threading.Event()))) <= 1
    assert "'udp://127.0.0.1:9' has ended after 1 frames (Could not read frame 2)" in caplog.text


def test_cameras_and_streams_as_inputs(tmp_path):
    ((item,), failures) = inputs.find(['rtsp://me:secret@door:554/1?x=2'], str(tmp_path))
    assert failures == [] and item.is_video and item.is_live
    assert (item.shown, item.name) == ('rtsp://door:554/1?x=2', 'rtsp_door_554_1_x_2')
    assert inputs.find(['camera:0'], 'out')[0][0].name == 'camera_0'
    with pytest.raises(OptionError, match="'rtsp://door' is a camera or stream.* only input"):
        inputs.find(['a.jpg', 'rtsp://me:secret@door'], 'out')
    for text in ('photos/camera', 'camera.jpg', 'C:/a.jpg', 'gs://bucket/a.jpg', 'http://'):
        assert not videos.is_live(text), text


# --- The program ------------------------------------------------------------------------------------------------------


def options(training, *texts, **changes):
    return PredictOptions(texts, checkpoint_dir=str(training), **changes)


def test_a_camera_until_it_is_stopped(training, tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(videos, 'require', lambda: None)
    stopped = []

    def frames(name, stop):
        for seed in range(3):
            yield predictor_setup.pixels(20, 31, seed)
        stop.set()  # as a signal does
        stopped.append(name)

    monkeypatch.setattr(videos, 'live_frames', frames)
    result = predict.run(options(training, 'camera:0'))
    assert (result.status, result.images, stopped) == (0, 3, ['camera:0'])
    assert sorted(os.listdir('predictions')) == ['.predict_files', 'predictions.json', 'video']
    assert os.listdir('predictions/video') == ['camera_0.mp4']
    (entry,) = json.loads((tmp_path / 'predictions/predictions.json').read_text())['images']
    assert entry == {'path': 'camera:0', 'video': {'file': 'video/camera_0.mp4', 'frames': len(written), 'rate': 25.0}}
    assert 'video: predictions/video/camera_0.mp4' in result.report
    predict.run(options(training, 'camera:0', save=('mask', 'video')))  # replaces its own files
    assert sorted(os.listdir('predictions/mask/camera_0')) == ['000000.png', '000001.png', '000002.png']
    with pytest.raises(OptionError, match='cannot be shared'):
        predict.run(cli.options_of('predict', ['camera:0', f'--checkpoint_dir={training}', '--part=1/2']))


def test_a_camera_that_cannot_be_opened(training, tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(videos, 'require', lambda: None)

    def frames(name, stop):
        raise DataError('it cannot be opened (no such device)')
        yield

    monkeypatch.setattr(videos, 'live_frames', frames)
    result = predict.run(options(training, 'rtsp://me:secret@door/1'))
    assert result.status == 1
    assert 'rtsp://door/1: it cannot be opened (no such device)' in result.report
    assert 'secret' not in (tmp_path / 'predictions/predictions.json').read_text()
    assert not os.path.exists('predictions/video')


def test_a_video_of_images_is_refused(training, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.png').write_bytes(b'')
    with pytest.raises(OptionError, match=r"save='video' applies only to videos, but 'a\.png' is an image.*'overlay'"):
        predict.run(options(training, 'a.png', save=('video',)))
    line = ['clip.mp4', f'--checkpoint_dir={training}', '--save=video', '--overlay_legend=all', '--video_layout=beside']
    made = cli.options_of('predict', line)
    assert (made.save, made.video_layout, made.overlay_legend) == (('video',), 'beside', 'all')


@pytest.fixture
def clip(tmp_path, monkeypatch):
    """A drawn video of six frames with sound, whose sides are odd in the encoder's blocks."""
    import imageio_ffmpeg  # not for the tests with stand-ins

    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / 'clip.mp4')
    sound = ['-f', 'lavfi', '-i', 'sine=duration=1', '-map', '0:v', '-map', '1:a', '-shortest']
    writer = imageio_ffmpeg.write_frames(path, (50, 34), fps=6, macro_block_size=2, output_params=[])
    writer.send(None)
    for level in range(6):
        writer.send(picture(40 * level, 34, 50))
    writer.close()
    with_sound = str(tmp_path / 'sound.mp4')
    command = [imageio_ffmpeg.get_ffmpeg_exe(), '-v', 'error', '-i', path, *sound, '-c:v', 'copy', with_sound]
    subprocess.run(command, check=True, capture_output=True)
    return 'sound.mp4'


@pytest.mark.slow
@needs_ffmpeg
@pytest.mark.parametrize(('layout', 'width'), [('over', 50), ('beside', 100)])
def test_the_overlays_of_a_video_are_a_video(layout, width, clip, training, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        result = predict.run(options(training, clip, save=('video', 'overlay'), video_layout=layout, overlay_alpha=0.0))
    assert result.images == 6
    path = 'predictions/video/sound.mp4'
    assert videos.facts_of(path) == videos.VideoFacts(6.0, has_sound=False)
    frames = list(videos.frames(path))
    assert [frame.shape for frame in frames] == [(34, width, 3)] * 6
    means = [frame.mean() for frame in frames]  # without opacity, the frames themselves
    np.testing.assert_allclose(means, [40 * level for level in range(6)], atol=6)
    assert "The sound of 'sound.mp4' is not copied to" in caplog.text
    (entry,) = json.loads((tmp_path / 'predictions/predictions.json').read_text())['images']
    assert entry['video'] == {'file': 'video/sound.mp4', 'frames': 6, 'rate': 6.0}
    assert len(entry['frames']) == len(os.listdir('predictions/overlay/sound.mp4')) == 6


@pytest.mark.slow
@needs_ffmpeg
def test_an_interrupted_video_leaves_nothing(clip, training, monkeypatch):
    put = video_files._Video.put

    def interrupted(self, number, drawn):
        if number == 3:
            raise KeyboardInterrupt
        put(self, number, drawn)

    monkeypatch.setattr(video_files._Video, 'put', interrupted)
    with pytest.raises(KeyboardInterrupt):
        predict.run(options(training, clip, save=('video',)))
    assert os.listdir('predictions/video') == []
    assert 'predictions.json' not in os.listdir('predictions')
