"""The files that `deeplab predict` writes: KIND/NAME.png below the output folder, and files about all images."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deeplab.datasets.annotations.shapes import Label
from deeplab.datasets.annotations.writing import Writer
from deeplab.errors import DataError, OptionError
from deeplab.files import output_files, writing, written_files
from deeplab.inference import annotation_files
from deeplab.inference.inputs import Failure, InputFile
from deeplab.inference.prediction import Prediction, overlay_suffix
from deeplab.inference.task_decoding import TaskDecoder
from deeplab.inference.task_files import RunDocuments
from deeplab.inference.video_files import VideoFile, VideoFiles
from deeplab.options import VIDEO, PredictOptions
from deeplab.registry import TASKS
from deeplab.wording import option

SUMMARY = 'predictions.json'
FORMAT = 1
_FIELD = 'PredictOptions.output_dir'
_SUFFIXES = {'mask': '.png', 'color': '.png', 'confidence': '.png', 'probabilities': '.npy'}


class OutputFolder:
    """Writes the results of images; several threads may use it at a time.

    Attributes:
      kinds: kinds of files that are written for each image.
      documents: files about all images.
      annotations: files of labeling tools about all images.
      videos: videos that were written; known at the end.
    """

    def __init__(
        self,
        options: PredictOptions,
        kinds: Sequence[str],
        decoder: TaskDecoder | None = None,
        labels: Sequence[Label] = (),
    ) -> None:
        """Checks the folder of the options; creates and writes nothing yet.

        Args:
          options: the folder, and how files are written.
          kinds: kinds of files that are written for each image.
          decoder: what decodes the maps of the network; None for a network of classes alone.
          labels: classes of the network, for annotations.

        Raises:
          OptionError: The folder cannot be created, or is not writable.
        """
        output_files.require_folder(options.output_dir, _FIELD)
        self._options, self._folder = options, options.output_dir
        self.kinds = tuple(dict.fromkeys(kinds))
        of_tasks = {} if decoder is None else TASKS.files(decoder.options)
        self._suffixes = {**_SUFFIXES, **{kind: file.suffix for kind, (_, file) in of_tasks.items()}}
        endings = {suffix.removeprefix('.') for suffix in (*self._suffixes.values(), '.jpg')}
        self._own_names = rf'.+\.({"|".join(sorted(endings))})'
        self.documents = RunDocuments(self._folder, self.kinds, decoder)
        self._writers = annotation_files.of_kinds(self.kinds)
        self._videos = VideoFiles(options)
        self.annotations = annotation_files.Documents(self._folder, self.kinds, labels)
        self._values: dict[str, dict[str, Any]] = {kind: {} for kind in self._writers}
        self._written = written_files.WrittenFiles(self._folder, 'predict')
        self._lock = threading.Lock()
        self._entries: dict[str, dict[str, Any]] = {}
        self.videos: list[VideoFile] = []
        self._prepared: set[str] = set()

    def check(self, items: Sequence[InputFile]) -> None:
        """Raises `OptionError` if a result would replace a file that predict has not written."""
        if self._writers and (videos := [item.path for item in items if item.is_video]):
            raise OptionError(
                f"Annotations can be written only for images, but '{videos[0]}' is a video. Extract its frames and "
                'pass them as images'
            )
        self._check_videos(items)
        planned = [os.path.join(self._folder, SUMMARY), *self._document_paths()]
        planned += [self._videos.path_of(item) for item in items if item.is_video and VIDEO in self.kinds]
        planned += [
            self._annotation_path(writer, item) for writer in self._writers.values() if writer.suffix for item in items
        ]
        for kind in self._pictures():
            suffixes = ('.jpg', '.png') if kind == 'overlay' else (self._suffixes[kind],)
            names = [item.name for item in items if not item.is_video]
            planned += [self._path(kind, name, suffix) for name in names for suffix in suffixes]
        in_the_way = [path for path in planned if self._is_foreign(path)]
        if in_the_way:
            more = len(in_the_way) - 1
            state = f' and {more} more exist and were' if more else ' exists and was'
            raise OptionError(
                f"{option(_FIELD, self._folder)}: '{in_the_way[0]}'{state} not written by predict. "
                f'Choose another folder, or set {option("PredictOptions.overwrite", True)}'
            )

    def _check_videos(self, items: Sequence[InputFile]) -> None:
        """Raises `OptionError` if there is to be a video of inputs that are none."""
        images = [item for item in items if not item.is_video]
        if VIDEO in self.kinds and images and (len(self.kinds) == 1 or len(images) == len(items)):
            raise OptionError(
                f"{option('PredictOptions.save', VIDEO)} applies only to videos, but '{images[0].path}' is an image. "
                f'Add a kind for images, such as {option("PredictOptions.save", "overlay")}'
            )

    def begin(self) -> None:
        """Removes the files about all images of an earlier run, whose results are about to be replaced.

        Raises:
          DataError: One cannot be removed.
        """
        for path in (os.path.join(self._folder, SUMMARY), *self._document_paths()):
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
            except OSError as error:
                raise DataError(f"Cannot remove '{path}' of an earlier run: {error.strerror}.") from None

    def write(self, item: InputFile, number: int | None, prediction: Prediction) -> None:
        """Writes the results of an image, or of a frame of a video.

        Args:
          item: the file.
          number: number of the frame, from 0; None for an image.
          prediction: prediction for the image.

        Raises:
          DataError: A file cannot be written, or would replace one that predict has not written.
        """
        height, width = prediction.labels.shape
        name = item.name if number is None else f'{item.name}/{number:06d}'
        paths = {}
        for kind, writer in self._writers.items():
            path = self._annotation_path(writer, item)
            value = annotation_files.value_of(writer, item, path, prediction, self._options.annotation)
            if writer.document is not None:
                self._values[kind][item.name] = value
            if writer.suffix:
                self._begin_file(path)
                annotation_files.write_image(path, value)
                self._written.add(path)
                paths[kind] = os.path.relpath(path, self._folder).replace(os.sep, '/')
        for kind in self._pictures():
            legend = self._options.overlay_legend if kind == 'overlay' else None
            suffix = self._suffixes.get(kind) or overlay_suffix(height, 2 * width if legend else width)
            path = self._path(kind, name, suffix)
            self._begin_file(path)
            prediction.save(path, kind, self._options.overlay_alpha, legend)
            self._written.add(path)
            self.documents.add(kind, name + suffix, prediction.entry(kind, name + suffix))
            paths[kind] = os.path.relpath(path, self._folder).replace(os.sep, '/')
        if number is not None and VIDEO in self.kinds:
            self._videos.put(item, number, prediction)
        facts = {'files': paths, 'height': height, 'width': width, 'shares': prediction.shares}
        with self._lock:
            if number is None:
                self._entries[item.path] = {'path': item.path, **facts}
            else:
                entry = self._entries.setdefault(item.path, {'path': item.shown, 'frames': {}})
                if paths or not item.is_live:  # a camera may run for days
                    entry['frames'][number] = facts

    def _begin_file(self, path: str) -> None:
        """Prepares the folder of a file; raises `DataError` if it would replace one that predict has not written."""
        if self._is_foreign(path):
            raise DataError(f"'{path}' exists and was not written by predict")
        self._prepare(os.path.dirname(path))

    def _pictures(self) -> list[str]:
        """Returns the kinds with a file for each image or frame that are no annotations."""
        return [kind for kind in self.kinds if kind not in self._writers and kind != VIDEO]

    def end_video(self, item: InputFile, count: int) -> None:
        """Completes the file of a video, see `VideoFiles.end`."""
        if VIDEO in self.kinds:
            self._videos.end(item, count)

    def close(self) -> None:
        """Removes what is not complete."""
        self._videos.abort()

    def _document_paths(self) -> list[str]:
        return [*self.documents.paths.values(), *self.annotations.paths.values()]

    def _annotation_path(self, writer: Writer, item: InputFile) -> str:
        return self._path(writer.folder or writer.name, writer.file_name(item.name, item.relative), writer.suffix)

    def _prepare(self, folder: str) -> None:
        """Creates a folder, and removes what a killed run has left in it, before the first file is written there."""
        with self._lock:
            if folder not in self._prepared:
                output_files.make_folder(folder)
                writing.remove_leftovers(folder, self._own_names)
                self._prepared.add(folder)

    def finish(self, items: Iterable[InputFile], failures: Sequence[Failure], facts: dict[str, Any]) -> str:
        """Writes the summary; returns its path.

        Args:
          items: the files, in order.
          failures: what was not predicted.
          facts: about the run.

        Raises:
          DataError: The file cannot be written.
        """
        for source, video in self._videos.finish().items():
            self._written.add(video.path)
            relative = os.path.relpath(video.path, self._folder).replace(os.sep, '/')
            self._entries[source]['video'] = {'file': relative, 'frames': video.frames, 'rate': video.rate}
            self.videos.append(video)
        entries = [self._entries[item.path] for item in items if item.path in self._entries]
        for entry in entries:
            if not entry.get('frames', True):
                del entry['frames']  # of a camera, of which there is the video alone
            elif 'frames' in entry:
                entry['frames'] = [{'frame': i, **entry['frames'][i]} for i in sorted(entry['frames'])]
        failed = [failure._asdict() for failure in failures]
        content = {'format': FORMAT, **facts, 'images': entries, 'failed': failed}
        for path in (*self.documents.write(), *self.annotations.write(self._values)):
            self._written.add(path)
        path = write_summary(self._folder, content)
        self._written.add(path)
        return path

    def _path(self, kind: str, name: str, suffix: str) -> str:
        return os.path.join(self._folder, kind, *name.split('/')) + suffix

    def _is_foreign(self, path: str) -> bool:
        """Returns whether a file exists that may not be replaced."""
        return not self._options.overwrite and os.path.lexists(path) and not self._written.is_own(path)


def write_summary(folder: str, content: Mapping[str, Any]) -> str:
    """Writes predictions.json; returns its path.

    Raises:
      DataError: The file cannot be written.
    """
    path = os.path.join(output_files.make_folder(folder), SUMMARY)
    with writing.explained(path):
        writing.write(path, json.dumps(content, indent=1) + '\n')
    return path
