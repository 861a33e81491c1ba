"""The prediction for one image: class ids, probabilities, results of tasks, pictures of them, and their files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.files import writing
from deeplab.inference import task_files
from deeplab.inference.task_decoding import TaskPrediction, has_classes
from deeplab.options import LEGENDS, SAVED
from deeplab.pictures import drawing
from deeplab.pictures import legend as legends
from deeplab.registry import TASKS
from deeplab.wording import did_you_mean, option

# Label of pixels with a class that is not kept.
NO_CLASS = 255
_PREVIEW_SIDE = 1024
_LARGEST_JPEG_SIDE = 65500
_LOSSY = ('.jpg', '.jpeg')


class Prediction:
    """What a network predicts for one image.

    What a result in `results` has is an attribute, too, such as `prediction.instance_ids` of the task `panoptic`; of
    several results with such a name, the first one's.

    Attributes:
      image: the image, upright, [h, w, channels], 0 to 255.
      labels: class of each pixel, [h, w] uint8, the largest channel of the output of classes; `NO_CLASS` for a class
        that is not kept. Of a network without such an output they say nothing.
      results: results of the tasks of the network by name; empty for a network of classes alone. They have all
        classes, unlike the files of `save`.
      class_names: one name for each class; numbers as text if the names are unknown.
      colors: color of each class, [classes, 3] uint8.
    """

    def __init__(
        self,
        image: np.ndarray,
        labels: np.ndarray,
        classes: DatasetDescriptor,
        is_kept: np.ndarray,
        scores: tuple[np.ndarray | None, np.ndarray | None],
        compute: Callable[[], np.ndarray],
        tasks: TaskPrediction | None = None,
    ) -> None:
        """Creates the prediction.

        Args:
          image: the image.
          labels: classes, [h, w] uint8, as predicted.
          classes: names and colors.
          is_kept: whether each of 256 ids is kept.
          scores: confidence [h, w] float32 (float16 of a large image) and probabilities [h, w, classes] float32; None
            for what was not computed.
          compute: computes the probabilities.
          tasks: what the tasks of the network predict; None for a network of classes alone.
        """
        self.image = image
        self._tasks = tasks
        self.results: Mapping[str, Mapping[str, Any]] = {} if tasks is None else tasks.results
        self.class_names = classes.names
        self.colors = classes.palette[: classes.num_classes]
        self._is_kept = is_kept
        self.labels = self.kept(labels)
        self._confidence, self._probabilities = scores
        self._compute = _Computation(compute)

    def __getattr__(self, name: str) -> Any:
        """Returns a value of a result."""
        if not name.startswith('_') and name != 'results':  # while an object is copied, it has no attributes yet
            for result in self.results.values():
                if name in result:
                    return result[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def kept(self, class_ids: np.ndarray) -> np.ndarray:
        """Returns class ids [h, w] uint8 with `NO_CLASS` for classes that are not kept."""
        if self._is_kept.all():
            return class_ids
        table: np.ndarray = np.where(self._is_kept, np.arange(256), NO_CLASS).astype(np.uint8)
        kept: np.ndarray = table[class_ids]
        return kept

    @property
    def nbytes(self) -> int:
        """Size of the arrays that it holds, without those that are yet to be computed."""
        of_tasks = (value for result in self.results.values() for value in result.values())
        held = (self.image, self.labels, self._confidence, self._probabilities, *of_tasks)
        return sum(value.nbytes for value in held if isinstance(value, np.ndarray))

    @property
    def probabilities(self) -> np.ndarray:
        """Probability of each class at each pixel, [h, w, classes] float32; computed when it is first read."""
        if self._probabilities is None:
            self._probabilities = self._compute()
        return self._probabilities

    @property
    def confidence(self) -> np.ndarray:
        """Probability of the most probable class at each pixel, [h, w] float32; computed when it is first read."""
        if self._confidence is None:
            scores = self._compute() if self._probabilities is None else self._probabilities
            self._confidence = scores.max(axis=2)  # the probabilities themselves are many times larger
        confidence: np.ndarray = self._confidence.astype(np.float32, copy=False)
        return confidence

    @property
    def shares(self) -> dict[str, float]:
        """Share of the pixels of each class that occurs and is kept, 0 to 1, by its name, the largest first.

        Empty if the network predicts no class for each pixel.
        """
        return {self._name(number): share for number, share in self._shares()}

    @property
    def _has_classes(self) -> bool:
        return self._tasks is None or has_classes(self._tasks.decoder.options)

    def _shares(self) -> list[tuple[int, float]]:
        """Returns id and share of each class that occurs and is kept, the largest share first."""
        if not self._has_classes:
            return []
        counts = np.zeros(256, np.int64)
        for rows in drawing.bands(*self.labels.shape):
            counts += np.bincount(self.labels[rows].ravel(), minlength=256)
        counts[~self._is_kept] = 0
        order = np.argsort(-counts, kind='stable').tolist()
        return [(number, float(counts[number] / self.labels.size)) for number in order if counts[number]]

    def _name(self, number: int) -> str:
        return self.class_names[number] if number < len(self.class_names) else str(number)

    def _table(self) -> np.ndarray:
        """Returns a color for each of 256 ids; black for ids without a class."""
        table = np.zeros((256, 3), np.uint8)
        table[: len(self.colors)] = self.colors[:256]  # image classifiers may have more
        table[~self._is_kept] = 0
        return table

    def colored(self) -> np.ndarray:
        """Returns the colors of the classes, [h, w, 3] uint8; black for pixels whose class is not kept."""
        colors: np.ndarray = self._table()[self.labels]
        return colors

    def overlay(self, alpha: float = 0.5) -> np.ndarray:
        """Returns the colors of the classes, or the picture of the network's task, over the image, [h, w, 3] uint8.

        Args:
          alpha: opacity of the colors, 0 to 1. Pixels whose class is not kept show the image.

        Raises:
          OptionError: `alpha` is not in this range.
        """
        drawn = self._task_overlay(alpha)
        return drawing.overlay(self.image, self.labels, self._table(), self._opacity(alpha)) if drawn is None else drawn

    def overlay_picture(self, alpha: float = 0.5, legend: str | None = None) -> np.ndarray:
        """Returns the overlay beside its legend, if any, as `save` writes it: [h or more, w or more, 3] uint8."""
        return np.asarray(self._picture('overlay', alpha, legend))

    def _task_overlay(self, alpha: float) -> np.ndarray | None:
        """Returns the picture of a task over the image, or larger; None if the task is `semantic`, or has none."""
        opacity, tasks = self._opacity(alpha), self._kept_tasks()
        drawn = None if tasks is None else tasks.overlay(self.image, alpha)
        if tasks is None or drawn is None or self._is_kept.all():
            return drawn
        by = next(task for task in TASKS.chosen(tasks.decoder.options) if task.overlay is not None)
        if by.keep is not None:  # it has drawn the kept classes alone
            return drawn
        return np.where(opacity[self.labels][..., np.newaxis] > 0, drawn, drawing.in_rgb(self.image))

    def _opacity(self, alpha: float) -> np.ndarray:
        """Returns the opacity of the color of each id, [256]; 0 for classes that are not kept."""
        if not 0 <= alpha <= 1:
            raise OptionError(f'alpha={alpha!r} is not allowed: it must be in the range 0 to 1.')
        return np.where(self._is_kept, np.float32(alpha), np.float32(0))

    def save(
        self, path: str | os.PathLike[str], kind: str = 'mask', alpha: float = 0.5, legend: str | None = None
    ) -> None:
        """Writes the prediction to a file, which is replaced as a whole.

        Args:
          path: path of the file: .png; .jpg or .png for an overlay; .npy for probabilities.
          kind: 'mask' (class ids, gray), 'color' (class ids with the colors as palette), 'overlay', 'confidence'
            (gray, 255 for 1.0), 'probabilities' ([h, w, classes] float32), or a kind of the network's tasks, such as
            'instances' of `panoptic`.
          alpha: see `overlay`.
          legend: classes in a legend beside an overlay: 'present' (those in the image, with their shares) or 'all';
            None for no legend.

        Raises:
          OptionError: There is no such kind, it cannot be stored in such a file, or `alpha` or `legend` is not allowed.
          DataError: The file cannot be written.
        """
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        self._require_kind(kind, path, suffix)
        if legend is not None and (kind != 'overlay' or legend not in LEGENDS):
            raise OptionError(f"legend={legend!r} is not allowed: it is 'present' or 'all', and for overlays only.")
        with writing.explained(path), writing.atomic_path(path) as temporary, open(temporary, 'wb') as stream:
            if kind == 'probabilities':
                np.lib.format.write_array(stream, self.probabilities, allow_pickle=False)
            elif kind in SAVED:
                stream.write(_encoded(self._picture(kind, alpha, legend), 'JPEG' if suffix in _LOSSY else 'PNG'))
            else:
                tasks = self._kept_tasks()
                assert tasks is not None  # which has this kind
                stream.write(tasks.file(kind, self.image))

    def _require_kind(self, kind: str, path: str | os.PathLike[str], suffix: str) -> None:
        """Raises `OptionError` unless the prediction has a kind of file, and files with `suffix` can hold it."""
        options = None if self._tasks is None else self._tasks.decoder.options
        of_tasks = {} if options is None else TASKS.files(options)
        kinds = (*task_files.own_kinds(SAVED, options), *of_tasks)
        allowed = {'overlay': ('.png', *_LOSSY), 'probabilities': ('.npy',)}.get(kind, ('.png',))
        if kind in of_tasks:
            allowed = (of_tasks[kind][1].suffix,)
        if kind not in kinds or suffix not in allowed:
            further = ''.join(f', for {name} {file.suffix}' for name, (_, file) in of_tasks.items())
            raise OptionError(
                f"'{os.fspath(path)}' cannot hold {kind!r}: kinds are {', '.join(kinds)}, and files are "
                f'.png, for an overlay .png or .jpg, for probabilities .npy{further}'
            )

    def entry(self, kind: str, path: str) -> Mapping[str, Any] | None:
        """Returns what a file about several images says of this one; None for kinds without such a file.

        Args:
          kind: kind of file, such as 'panoptic'.
          path: path of the image's file in the folder of the kind.
        """
        tasks = self._kept_tasks()
        return None if tasks is None or kind in SAVED else tasks.entry(kind, path)

    def _kept_tasks(self) -> TaskPrediction | None:
        """Returns the results of the tasks for files, without classes that are not kept."""
        return self._tasks if self._tasks is None or self._is_kept.all() else self._tasks.kept(self._is_kept)

    def _picture(self, kind: str, alpha: float, legend: str | None) -> Image.Image:
        height, width = self.labels.shape
        if kind == 'overlay':
            opacity = self._opacity(alpha)
            if (drawn := self._task_overlay(alpha)) is not None:
                picture = Image.fromarray(drawn)
                mixed = legends.beside(picture.size, self._entries(legend))
                mixed.paste(picture)
                return mixed
            mixed = legends.beside((width, height), self._entries(legend))
            for rows, part in drawing.overlay_parts(self.image, self.labels, self._table(), opacity):
                mixed.paste(Image.fromarray(part), (0, rows.start))
            return mixed
        if kind == 'confidence':
            return Image.fromarray(drawing.shades(self.confidence if self._confidence is None else self._confidence))
        picture = Image.fromarray(self.labels)
        if kind == 'color':
            picture.putpalette(self._table().tobytes())
        return picture

    def _entries(self, legend: str | None) -> list[legends.Entry]:
        """Returns the lines of a legend; none for None, and for a network without a class for each pixel."""
        if legend is None or not self._has_classes:
            return []
        colors = self._table()
        if legend == 'all':
            kept = [number for number in range(len(self.colors)) if self._is_kept[number]]
            return [legends.Entry(self._name(number), colors[number]) for number in kept]
        return [legends.Entry(self._name(number), colors[number], f'{share:.1%}') for number, share in self._shares()]

    def _repr_png_(self) -> bytes:
        """Returns the overlay as notebooks show it, of at most 1024 pixels a side, beside the legend."""
        picture = Image.fromarray(self.overlay())
        picture.thumbnail((_PREVIEW_SIDE, _PREVIEW_SIDE))
        sheet = legends.beside(picture.size, self._entries('present'))
        sheet.paste(picture)
        return _encoded(sheet, 'PNG')

    def __repr__(self) -> str:
        height, width = self.labels.shape
        most = ', '.join(f'{name} {share:.1%}' for name, share in list(self.shares.items())[:5])
        return f'<Prediction of {height} x {width} pixels{": " if most else ""}{most}>'


class _Computation:
    """Computes the probabilities of a prediction; a pickled one raises an error instead, as it has no network."""

    def __init__(self, compute: Callable[[], np.ndarray]) -> None:
        self._compute = compute

    def __call__(self) -> np.ndarray:
        return self._compute()

    def __deepcopy__(self, memo: object) -> _Computation:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _Computation, (_without_network,)


def _without_network() -> np.ndarray:
    raise ValueError(
        'A prediction that was pickled has no network to compute probabilities with. Read its confidence or its '
        f'probabilities before, or open the predictor with {option("PredictorOptions.probabilities", True)}.'
    )


def kept_ids(wanted: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Returns whether each of 256 ids is kept; raises `OptionError` for an unknown class."""
    if not wanted:
        return np.ones(256, bool)
    is_kept = np.zeros(256, bool)
    folded = [name.casefold() for name in names]
    for name in map(str, wanted):
        if name.casefold() in folded:
            is_kept[folded.index(name.casefold())] = True
        elif name.isdecimal() and int(name) < len(names):
            is_kept[int(name)] = True
        else:
            hint = f'. Names need {option("PredictorOptions.dataset")}' if names[0] == '0' else ''
            raise OptionError(
                f'{option("PredictorOptions.classes", tuple(wanted))}: there is no class {name!r}. '
                f'{did_you_mean(name, names)}Known: {", ".join(names)}{hint}'
            )
    return is_kept


def overlay_suffix(height: int, width: int) -> str:
    """Returns the extension of the file for an overlay: JPEG, or PNG for a picture that is too long for JPEG."""
    return '.jpg' if max(height, width) <= _LARGEST_JPEG_SIDE else '.png'


def _encoded(picture: Image.Image, kind: str) -> bytes:
    """Encodes a picture; to memory, because Pillow reports a full disk badly."""
    content = io.BytesIO()
    picture.save(content, kind, **({'quality': 92} if kind == 'JPEG' else {'compress_level': 3}))
    return content.getvalue()
